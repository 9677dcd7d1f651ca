package render

import (
	_ "embed"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

//go:embed assets/soci.toml
var sociConfig []byte

// sociFiles configure the SOCI snapshotter to fetch and unpack in parallel. The
// values are upstream's.
func sociFiles(n *node.Node) ([]File, error) {
	if !n.Containerd.SOCI {
		return nil, nil
	}
	return []File{{Path: SOCIConfig, Mode: 0o644, Content: sociConfig, Why: "how images are pulled in parallel", Of: []Service{SOCI}}}, nil
}
