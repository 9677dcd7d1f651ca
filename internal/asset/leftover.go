package asset

import (
	"fmt"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Leftover lists the leftovers of a killed Install: the folder into which an
// archive was unpacked, or the temporary files of a program.
func (d Download) Leftover(h *host.Host) ([]string, error) {
	if d.Kind != TarGz {
		return h.Leftovers(d.Target)
	}
	staging := stagingName(d)
	there, err := afero.Exists(h.Files, staging)
	if err != nil {
		return nil, fmt.Errorf("listing the temporary files of an interrupted run: %w", err)
	}
	if !there {
		return nil, nil
	}
	return []string{staging}, nil
}
