package eksnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Machine is a plain installation of a distribution, which need not exist.
type Machine struct {
	// Distro is a distribution: one of distros.All, distros.ByID, or an own value.
	Distro distros.Distro
	// Version is VERSION_ID of os-release(5), such as "12"; empty for a
	// distribution without versions.
	Version string
	// Arch is amd64 or arm64.
	Arch string
}

// Plan returns what Provision would do to a plain machine, step by step, without a
// machine. A machine that differs from a plain installation may need less: plan for
// that machine with Provision and DryRun.
func Plan(ctx context.Context, spec provisioner.Spec, m Machine) (planned []plan.Planned, err error) {
	if spec.Distro != "" {
		return nil, errors.New("planning without a machine: set Machine.Distro, not the distribution of the spec")
	}
	if err := m.Distro.Validate(); err != nil {
		return nil, err
	}
	h, remove, err := plain(m.Distro, m.Version)
	if err != nil {
		return nil, fmt.Errorf("making the file system of a plain machine: %w", err)
	}
	defer func() {
		if failed := remove(); err == nil {
			err = failed
		}
	}()
	d, _, err := m.Distro.ForHost(h)
	if err != nil {
		return nil, err
	}
	command, err := os.Executable()
	if err != nil {
		return nil, err
	}
	items, err := provisioner.Steps(spec, d, provisioner.Inputs{Arch: m.Arch, Command: command})
	if err != nil {
		return nil, err
	}
	return plan.Make(ctx, h, items), nil
}

// plain is the file system of a machine with only an os-release file. The caller
// calls the returned function to remove the file system.
func plain(d distros.Distro, version string) (*host.Host, func() error, error) {
	root, err := os.MkdirTemp("", "eksnode-plan-")
	if err != nil {
		return nil, nil, err
	}
	release := "ID=" + d.OSRelease[0] + "\n"
	if version != "" {
		release += fmt.Sprintf("VERSION_ID=%q\n", version)
	}
	err = os.Mkdir(filepath.Join(root, "etc"), 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "etc", "os-release"), []byte(release), 0o600)
	}
	var h *host.Host
	if err == nil {
		h, err = host.Mounted(root)
	}
	if err != nil {
		_ = os.RemoveAll(root) // the first error is what matters
		return nil, nil, err
	}
	return h, func() error { return errors.Join(h.Close(), os.RemoveAll(root)) }, nil
}
