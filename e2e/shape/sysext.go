package shape

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// sysext is the folder of the extension with containerd:
// https://github.com/flatcar/scripts/blob/main/build_library/sysext_prod_builder
const sysext = "/opt/extensions/containerd-flatcar"

// sysextManager puts the offered packages into the system extension. There is no
// package manager and no repository.
type sysextManager struct{}

func (sysextManager) packages() []string { return nil }
func (sysextManager) host() []string     { return nil }
func (sysextManager) isDebian() bool     { return false }

func (sysextManager) fill(ctx context.Context, _ Shape, folder string, _, offered []pkg) error {
	extension := filepath.Join(folder, "root", sysext)
	if err := os.MkdirAll(extension, 0o755); err != nil {
		return fmt.Errorf("making the system extension: %w", err)
	}
	for _, p := range offered {
		if err := command(ctx, "cp", "-a", filepath.Join(p.folder, "usr"), extension); err != nil {
			return err
		}
	}
	if err := base.Write(extension, filesOf(sysextFiles)...); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(folder, repositoryFolder), 0o755)
}
