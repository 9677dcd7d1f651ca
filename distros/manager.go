package distros

import (
	"context"
	"fmt"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// manager is what most package managers have as data. Those that differ replace a method.
type manager struct {
	name string
	// refresh, install, remove and clean are command lines; the names of packages follow
	// those of install and remove. refreshing is the short form of refresh.
	refreshing             string
	refresh                [][]string
	install, remove, clean []string
	// drop are additional options of remove, which ends with "--".
	drop []string
	// pin is between the name and the version of a package in a line of install.
	pin          string
	tool         tool
	kernels      Kernels
	repositories RepositoryForm
	rules        []scrub.Rule
}

func (m manager) Name() string                   { return m.name }
func (m manager) Refreshing() string             { return m.refreshing }
func (m manager) Kernels() Kernels               { return m.kernels }
func (m manager) RepositoryForm() RepositoryForm { return m.repositories }
func (m manager) ScrubRules() []scrub.Rule       { return m.rules }

func (m manager) Refresh(ctx context.Context, h *host.Host) error {
	for _, line := range m.refresh {
		if err := m.tool.run(ctx, h, line); err != nil {
			return while("refreshing the package lists", err)
		}
	}
	return nil
}

func (m manager) Install(ctx context.Context, h *host.Host, names []string) error {
	return while(installing, m.tool.run(ctx, h, slices.Concat(m.install, names)))
}

func (m manager) Pinned(name, version string) (string, error) { return name + m.pin + version, nil }

func (m manager) Remove(ctx context.Context, h *host.Host, names []string) error {
	return while(removing, m.tool.run(ctx, h, slices.Concat(m.remove, names)))
}

func (m manager) Drop(ctx context.Context, h *host.Host, names []string) error {
	return while(removing, m.tool.run(ctx, h,
		slices.Concat(slices.Insert(slices.Clone(m.remove), len(m.remove)-1, m.drop...), names)))
}

func (m manager) Clean(ctx context.Context, h *host.Host) error {
	return while(cleaning, m.tool.run(ctx, h, m.clean))
}

// Most package managers leave nothing unfinished. rpm and pacman write a package into
// their database after its files: an interrupted package is not installed, and Install
// installs it. Their packages start no services. Locks name their process or belong to the
// kernel, and the tools take over locks of dead processes; pacman's lock is a Leftover.
func (manager) Unfinished(*host.Host) ([]string, error)  { return nil, nil }
func (manager) Finish(context.Context, *host.Host) error { return nil }
func (manager) Leftover(*host.Host) ([]string, error)    { return nil, nil }

// What a package manager does, for while.
const (
	installing = "installing packages"
	removing   = "removing packages"
	holding    = "holding packages"
	finishing  = "finishing packages of an interrupted run"
	cleaning   = "deleting downloaded packages"
)

// while adds to an error what was done.
func while(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
