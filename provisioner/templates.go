package provisioner

import (
	"context"
	_ "embed"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// credentialProvider says which images the kubelet asks
// ecr-credential-provider about.
//
//go:embed assets/credential-provider.json
var credentialProvider []byte

// templateFiles lists the templates, which the manifest records whole so that
// a scrub can put them back. They serve those who call a bootstrap.sh of Amazon
// Linux 2's kind, which fills them in where they lie; `eksnode init` writes its
// own files.
func (n *node) templateFiles() []plan.File {
	var files []plan.File
	for _, t := range templates.All() {
		files = append(files, plan.File{Path: t.Path, Content: t.Content, Mode: 0o644, Why: t.Use})
	}
	if n.has("ecr-credential-provider") {
		files = append(files, plan.File{Path: "/etc/eks/image-credential-provider/config.json", Content: credentialProvider, Mode: 0o644, Why: "which images the kubelet asks the credential provider about"})
	}
	return files
}

// templates writes the templates. Done means that they are as provisioning
// left them: a machine that has joined a cluster since is not done.
func (n *node) templates() step {
	return step{"templates", func(_ context.Context, h *host.Host) ([]plan.Action, error) {
		return plan.Files(h, n.templateFiles())
	}}
}

func templateRecord(f plan.File) manifest.Template {
	return manifest.Template{Path: f.Path, Mode: manifest.Mode(f.Mode), SHA256: manifest.Sum(f.Content), Content: string(f.Content)}
}
