package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// Open prepares everything for the first machine. It installs the host packages
// that machines of these kinds need, prepares the default base system, and
// opens a lab with the apt mirror. All files are in the harness's cache folder.
// root is the base system's tree, for Config.Root.
func Open(ctx context.Context, log io.Writer, kinds ...Kind) (lab *Lab, root string, err error) {
	cache, err := base.Cache()
	if err != nil {
		return nil, "", err
	}
	if err := base.Install(ctx, log, Packages(kinds...)...); err != nil {
		return nil, "", err
	}
	root, err = base.Debian{Cache: cache}.Prepare(ctx, log)
	if err != nil {
		return nil, "", err
	}
	upstream, err := aptmirror.HostUpstream(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("opening the lab: %w", err)
	}
	mirror, err := aptmirror.New(base.AptCache(cache), upstream)
	if err != nil {
		return nil, "", fmt.Errorf("opening the lab: %w", err)
	}
	lab, err = NewLab(ctx, LabConfig{
		Folder: filepath.Join(cache, "run"),
		Mirror: mirror,
		Kernel: filepath.Join(root, "vmlinuz"),
		Log:    log,
	})
	if err != nil {
		return nil, "", errors.Join(err, mirror.Close())
	}
	lab.closeLast(mirror.Close)
	return lab, root, nil
}
