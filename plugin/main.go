// Command packer-plugin-eksnode is the Packer plugin. Its components are:
//
//   - the provisioner `eksnode` turns a machine into an EKS node
//   - the provisioner `eksnode-scrub` removes what an image must not carry
//   - the builder `eksnode-disk` makes a disk image of a cloud image, without a machine
//   - the provisioner `eksnode-audit` finds what an image must not carry
//   - the data source `eksnode-cluster` reads an EKS cluster from AWS
//   - the data source `eksnode-base-ami` finds a base image on AWS
//   - the data source `eksnode-contents` lists the versions an image will have
//   - the post-processor `eksnode-ami` makes an AMI of a disk image
//   - the post-processor `eksnode-publish` writes the newest image to SSM
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hashicorp/packer-plugin-sdk/plugin"
	sdkversion "github.com/hashicorp/packer-plugin-sdk/version"

	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plugin/ami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/baseami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/cluster"
	"github.com/eksnode/packer-plugin-eksnode/plugin/contents"
	"github.com/eksnode/packer-plugin-eksnode/plugin/disk"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/publish"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

func main() {
	// The audit and the build of a disk image start this program again.
	if code, child := diskbuild.OpenChild(context.Background()); child {
		os.Exit(code)
	}
	set := plugin.NewSet()
	// Packer puts the plugin's name before these: `eksnode`, `eksnode-scrub`.
	set.RegisterProvisioner(plugin.DEFAULT_NAME, new(eksnode.Provisioner))
	set.RegisterProvisioner("scrub", new(scrub.Provisioner))
	set.RegisterBuilder("disk", new(disk.Builder))
	set.RegisterProvisioner("audit", new(scrub.Audit))
	set.RegisterDatasource("cluster", new(cluster.Datasource))
	set.RegisterDatasource("base-ami", new(baseami.Datasource))
	set.RegisterDatasource("contents", new(contents.Datasource))
	set.RegisterPostProcessor("ami", new(ami.PostProcessor))
	set.RegisterPostProcessor("publish", new(publish.PostProcessor))
	set.SetVersion(sdkversion.NewPluginVersion(version.Version, version.VersionPrerelease, version.VersionMetadata))
	if err := set.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
