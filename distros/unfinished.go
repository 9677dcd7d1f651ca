package distros

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// transactional is a package manager without unfinished packages. rpm and
// pacman write a package into their database after its files: an interrupted
// package is not installed, and Install installs it. Locks name their process
// or belong to the kernel, and the tools take over locks of dead processes;
// pacman's lock is a Leftover.
type transactional struct{}

func (transactional) Unfinished(*host.Host) ([]string, error)  { return nil, nil }
func (transactional) Finish(context.Context, *host.Host) error { return nil }

// Unfinished lists packages that a killed apt or dpkg left half installed.
func (aptManager) Unfinished(h *host.Host) ([]string, error) {
	states, journal, err := dpkgUnfinished(h)
	if err != nil {
		return nil, err
	}
	if len(states) == 0 && journal > 0 {
		return []string{"dpkg's journal"}, nil
	}
	return dpkgNames(states, func(dpkgEntry) bool { return true }), nil
}

func dpkgUnfinished(h *host.Host) (map[dpkgPackage]dpkgEntry, int, error) {
	status, err := database(h, dpkgStatus)
	if err != nil {
		return nil, 0, err
	}
	states, journal, err := dpkgRead(h, status)
	maps.DeleteFunc(states, func(_ dpkgPackage, s dpkgEntry) bool { return !s.unfinished() })
	return states, journal, err
}

// dpkgNames lists the packages in certain states.
func dpkgNames(states map[dpkgPackage]dpkgEntry, in func(dpkgEntry) bool) []string {
	var names []string
	for p, s := range states {
		if in(s) {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Finish configures unpacked packages. dpkg cannot finish a package that was
// killed while it was unpacked; Finish installs it again.
func (m aptManager) Finish(ctx context.Context, h *host.Host) (err error) {
	restore, err := quiet(h)
	if err != nil {
		return finishing(err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	unconfigured := m.tool.run(ctx, h, m.configure()) // perhaps for want of one that is unpacked below
	states, _, err := dpkgUnfinished(h)
	if err != nil {
		return finishing(err)
	}
	maps.DeleteFunc(states, func(_ dpkgPackage, s dpkgEntry) bool { return !s.again })
	if len(states) == 0 {
		return finishing(unconfigured)
	}
	if err := m.unpackAgain(ctx, h, states); err != nil {
		return finishing(err)
	}
	return finishing(m.tool.run(ctx, h, m.configure()))
}

// unpackAgain installs packages again, and removes those whose removal was
// interrupted.
func (m aptManager) unpackAgain(ctx context.Context, h *host.Host, states map[dpkgPackage]dpkgEntry) error {
	run := func(names []string, argv ...string) error {
		if len(names) == 0 {
			return nil
		}
		return m.tool.run(ctx, h, slices.Concat(argv, []string{"--"}, names))
	}
	gone := dpkgNames(states, func(s dpkgEntry) bool { return !s.wanted() })
	if err := run(gone, "dpkg", "--remove", "--force-remove-reinstreq"); err != nil || len(gone) == len(states) {
		return err
	}
	if err := m.Refresh(ctx, h); err != nil {
		return err
	}
	wanted := dpkgNames(states, dpkgEntry.wanted)
	if err := run(wanted, m.get("install", "--reinstall", "--no-install-recommends", "--allow-change-held-packages", "--no-remove")...); err != nil {
		return err
	}
	// What was new is a dependency, or is going to be installed by its name.
	return run(dpkgNames(states, func(s dpkgEntry) bool { return s.wanted() && s.fresh }), "apt-mark", "auto")
}

// configure returns the command line that finishes unpacked packages.
func (m aptManager) configure() []string {
	return append([]string{"dpkg", "--configure", "-a"}, m.dpkgOptions...)
}

func finishing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("finishing packages of an interrupted run: %w", err)
}

// Leftover returns the policy of a killed Install, whole or as a temporary
// file. While a package is unfinished, the policy stays in force: the killed
// Install's dpkg may still run, and Finish takes over the policy.
func (m aptManager) Leftover(h *host.Host) ([]string, error) {
	left, err := h.Leftovers(policyPath)
	if err != nil {
		return nil, err
	}
	text, err := h.Content(policyPath)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", policyPath, err)
	}
	if string(text) != policy {
		return left, nil
	}
	unfinished, err := m.Unfinished(h)
	if err != nil || len(unfinished) > 0 {
		return left, err
	}
	return append(left, policyPath), nil
}
