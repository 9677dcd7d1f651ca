// Command packer-plugin-eksnode is the Packer plugin: the provisioners
// `eksnode`, which makes a machine an EKS node, and `eksnode-scrub`, which
// takes off it what an image must not carry; the data sources `eksnode-cluster`
// and `eksnode-base-ami`, which ask AWS, and `eksnode-contents`, which says what
// an image will be made of; and the post-processor `eksnode-publish`, which
// tells AWS which image is the newest.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/packer-plugin-sdk/plugin"
	sdkversion "github.com/hashicorp/packer-plugin-sdk/version"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plugin/baseami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/cluster"
	"github.com/eksnode/packer-plugin-eksnode/plugin/contents"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/publish"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

func main() {
	set := plugin.NewSet()
	// Packer puts the plugin's name before these: `eksnode`, `eksnode-scrub`.
	set.RegisterProvisioner(plugin.DEFAULT_NAME, new(eksnode.Provisioner))
	set.RegisterProvisioner("scrub", new(scrub.Provisioner))
	set.RegisterDatasource("cluster", new(cluster.Datasource))
	set.RegisterDatasource("base-ami", new(baseami.Datasource))
	set.RegisterDatasource("contents", new(contents.Datasource))
	set.RegisterPostProcessor("publish", new(publish.PostProcessor))
	set.SetVersion(sdkversion.NewPluginVersion(version.Version, version.VersionPrerelease, version.VersionMetadata))
	if err := set.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
