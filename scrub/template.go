package scrub

import (
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// templateOf returns the file at name as it was before any bootstrap. The
// source is the image's manifest or, on an image without a manifest that
// supports the bootstrap.sh contract, Amazon Linux 2. nil means that the image
// has no such template.
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
	for _, t := range templates.All() {
		if t.Path != name {
			continue
		}
		supported, err := contractOf(h)
		if err != nil || supported == noContract {
			return nil, err
		}
		return &template{Content: t.Content, Attributes: host.Attributes{Mode: 0o644}, Guessed: supported == knownTemplate}, nil
	}
	return nil, nil
}
