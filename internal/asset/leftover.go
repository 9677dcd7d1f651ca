package asset

import (
	"fmt"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Leftover lists what an Install left that was killed: the folder an archive
// was unpacked into, or the temporary files of a program.
func (d Download) Leftover(h *host.Host) ([]string, error) {
	if d.Kind != TarGz {
		return h.Leftovers(d.Target)
	}
	staging := stagingName(d)
	there, err := afero.Exists(h.Files, staging)
	if err != nil {
		return nil, fmt.Errorf("looking for what an interrupted run left: %w", err)
	}
	if !there {
		return nil, nil
	}
	return []string{staging}, nil
}
