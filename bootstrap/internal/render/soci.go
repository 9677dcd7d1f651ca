package render

import (
	_ "embed"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

//go:embed assets/soci.toml
var sociConfig []byte

// sociFiles returns the configuration with which the SOCI snapshotter fetches and
// unpacks in parallel. The values are upstream's.
func sociFiles(n *node.Node) ([]File, error) {
	if !n.Containerd.SOCI {
		return nil, nil
	}
	return []File{{Path: SOCIConfig, Mode: 0o644, Content: sociConfig, Why: "the SOCI snapshotter's configuration of parallel pulls", Of: []Service{SOCI}}}, nil
}
