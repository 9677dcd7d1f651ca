package distros

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// transactional is a package manager that has nothing to finish. rpm and pacman
// write a package into their database when its files are there: one that was
// interrupted is not installed, and Install installs it. Locks name their
// process or are the kernel's, and the tools take over those of the dead;
// pacman's is a Leftover.
type transactional struct{}

func (transactional) Unfinished(*host.Host) ([]string, error)  { return nil, nil }
func (transactional) Finish(context.Context, *host.Host) error { return nil }

// dpkgJournal is the folder of dpkg's changes that are not in its database yet.
const dpkgJournal = "/var/lib/dpkg/updates"

// halfDone is a package's state between not there and installed; see dpkg(1).
var halfDone = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` (half-installed|unpacked|half-configured|triggers-awaited|triggers-pending)$`)
})

// journalEntry is the name of a change in dpkg's journal.
var journalEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+$`) })

// dpkgStates tells the state of each package as dpkg would read it: a killed
// dpkg leaves its last changes in its journal, and apt refuses to do anything
// until they are taken over.
func dpkgStates(h *host.Host) (states map[string]string, journal bool, err error) {
	states = map[string]string{}
	files := []string{dpkgStatus}
	entries, err := afero.ReadDir(h.Files, dpkgJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("looking for unfinished packages: %w", err)
	}
	for _, e := range entries { // sorted, as dpkg counts them
		if journalEntry().MatchString(e.Name()) {
			files = append(files, path.Join(dpkgJournal, e.Name()))
		}
	}
	for _, name := range files {
		text, err := h.Content(name)
		if err != nil {
			return nil, false, fmt.Errorf("looking for unfinished packages: %w", err)
		}
		for paragraph := range strings.SplitSeq(string(text), "\n\n") {
			if p := dpkgParagraph(paragraph); p["Package"] != "" {
				states[p["Package"]] = p["Status"]
			}
		}
	}
	return states, len(files) > 1, nil
}

// Unfinished lists the packages that a killed apt or dpkg left between not there
// and installed.
func (aptManager) Unfinished(h *host.Host) ([]string, error) {
	states, journal, err := dpkgStates(h)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(states, func(_, state string) bool { return !halfDone().MatchString(state) })
	names := slices.Sorted(maps.Keys(states))
	if len(names) == 0 && journal {
		return []string{"dpkg's journal"}, nil
	}
	return names, nil
}

// Finish configures what is unpacked. What was killed while it was unpacked dpkg
// cannot finish: only installing that again does.
func (m aptManager) Finish(ctx context.Context, h *host.Host) (err error) {
	restore, err := quiet(h)
	if err != nil {
		return finishing(err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	if err := m.tool.run(ctx, h, m.configure()); err != nil {
		return finishing(err)
	}
	states, _, err := dpkgStates(h)
	if err != nil {
		return finishing(err)
	}
	maps.DeleteFunc(states, func(_, state string) bool { return !strings.HasSuffix(state, " half-installed") })
	if len(states) == 0 {
		return nil
	}
	if err := m.Refresh(ctx, h); err != nil {
		return finishing(err)
	}
	again := append([]string{"--reinstall", "--no-install-recommends", "--allow-change-held-packages", "--no-remove", "--"}, slices.Sorted(maps.Keys(states))...)
	return finishing(m.tool.run(ctx, h, m.get("install", again...)))
}

// configure is the command line that finishes what is unpacked.
func (m aptManager) configure() []string {
	return append([]string{"dpkg", "--configure", "-a"}, m.dpkgOptions...)
}

func finishing(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("finishing the packages that an interrupted run left: %w", err)
}

// Leftover is the policy that an Install left which was killed, whole or as a
// temporary file. While a package is unfinished it stays in force: the killed
// one's dpkg may still be at work, and Finish takes the policy over.
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
