package provisioner

import (
	"bytes"
	"path"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// templateFiles lists the templates, with their content in the manifest so that a
// scrub can restore them. A bootstrap.sh in the form of Amazon Linux 2 fills them
// in place; `eksnode init` writes its own files. The step templates is done when they are
// as provisioning writes them, so not on a machine that has joined a cluster since.
func (n *node) templateFiles() []plan.File {
	var files []plan.File
	program := []byte(path.Join(n.distro.CommandFolder, authenticator))
	for _, t := range templates.All() {
		// On a distribution with a read-only /usr, the program is elsewhere.
		content := bytes.ReplaceAll(t.Content, []byte("/usr/bin/"+authenticator), program)
		files = append(files, textFile(t.Path, content, t.Use))
	}
	return append(files, n.stepFiles("templates")...)
}
