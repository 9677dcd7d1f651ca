package render

import (
	_ "embed"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

//go:embed assets/soci.toml
var sociConfig []byte

// sociOrder makes containerd wait until the SOCI snapshotter is ready.
const sociOrder = Mark + `
[Unit]
Requires=soci-snapshotter.service
After=soci-snapshotter.service
`

// sociFiles returns the configuration with which the SOCI snapshotter fetches and
// unpacks in parallel, and its order before containerd. The values are upstream's.
func sociFiles(n *node.Node) ([]File, error) {
	if !n.Containerd.SOCI {
		return nil, nil
	}
	return []File{
		{Path: SOCIConfig, Mode: 0o644, Content: sociConfig, Why: "the SOCI snapshotter's configuration of parallel pulls", Of: []Service{SOCI}},
		{Path: SOCIOrder, Mode: 0o644, Content: []byte(sociOrder), Why: "containerd starts after the SOCI snapshotter", Of: []Service{Systemd}},
	}, nil
}
