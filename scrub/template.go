package scrub

import (
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// templateOf is what the file at name looked like before any bootstrap: as the
// image's manifest recorded it, or, on an image without a manifest that carries
// a bootstrap.sh, as Amazon Linux 2 ships it. nil means that the image knows no
// template of that name.
func templateOf(h *host.Host, name string) (*template, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	if m != nil {
		t, ok := m.Template(name)
		if !ok {
			return nil, nil
		}
		return &template{Content: []byte(t.Content), Attributes: t.Attributes(), Recorded: true}, nil
	}
	there, err := h.Exists("/etc/eks/bootstrap.sh")
	if err != nil || !there {
		return nil, err
	}
	for _, t := range templates.All() {
		if t.Path == name {
			return &template{Content: t.Content, Attributes: host.Attributes{Mode: 0o644}}, nil
		}
	}
	return nil, nil
}
