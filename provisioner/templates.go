package provisioner

import (
	"bytes"
	_ "embed"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// credentialProvider lists the images for which the kubelet calls
// ecr-credential-provider.
//
//go:embed assets/credential-provider.json
var credentialProvider []byte

// templateFiles lists the templates, with their content in the manifest so that a
// scrub can restore them. A bootstrap.sh in the form of Amazon Linux 2 fills them
// in place; `eksnode init` writes its own files. The step templates is done when they are
// as provisioning writes them, so not on a machine that has joined a cluster since.
func (n *node) templateFiles() []plan.File {
	var files []plan.File
	for _, t := range templates.All() {
		// On a distribution with a read-only /usr, the program is elsewhere.
		content := bytes.ReplaceAll(t.Content, []byte("/usr/bin/"+authenticator), []byte(path.Join(n.distro.CommandFolder, authenticator)))
		files = append(files, textFile(t.Path, content, t.Use))
	}
	if n.has("ecr-credential-provider") {
		files = append(files, textFile("/etc/eks/image-credential-provider/config.json", credentialProvider,
			"images for which the kubelet calls the credential provider"))
	}
	return files
}
