package distros

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// zypperManager is SUSE's package manager.
type zypperManager struct {
	manager
	rpmDatabase
}

// Zypper is the package manager of SUSE and openSUSE.
func Zypper() PackageManager { return newZypper() }

func newZypper() zypperManager {
	return zypperManager{manager: manager{
		name: "zypper", refreshing: "zypper refresh",
		// Refresh refreshes all repositories together. Without --force, zypper skips
		// repositories that it refreshed a moment ago.
		refresh: [][]string{zypperLine("refresh", "--force")},
		install: zypperLine("install", "--no-recommends", "--auto-agree-with-licenses", "--oldpackage", "--"),
		remove:  zypperLine("remove", "--"), drop: []string{"--clean-deps"}, clean: zypperLine("clean", "--all"),
		pin:          "=",
		tool:         tool{words: 3, symptoms: "zypper", locked: zypperLocked, patience: lockPatience},
		kernels:      rpmKernels("zypper", "--quiet", "search", "--type", "package", "kernel*"),
		repositories: rpmRepositories("/etc/zypp/repos.d", "rpm", "--import"),
		rules: []scrub.Rule{
			caches("zypper", "/var/cache/zypp/*", "/var/log/zypp/history", "/var/log/zypper.log"),
			identity("zypper-id", "zypper",
				"two machines would count as one, and the vendor could link both to the builder machine",
				"zypper, at its next refresh", "libzypp, AnonymousUniqueId", "/var/lib/zypp/AnonymousUniqueId"),
			packageState("zypper", "zypper(8), rpm(8)",
				rpmState(`remove the older with "rpm --erase" and run "zypper verify"`), rpmPaths...),
		},
	}}
}

const zyppLocks = "/etc/zypp/locks"

// zypperLine is a command line of zypper. Two options that would seem to help do harm:
// --no-gpg-checks, and --gpg-auto-import-keys, which trusts any key that a repository sends.
func zypperLine(words ...string) []string {
	return append([]string{"zypper", "--non-interactive"}, words...)
}

// Install needs no repair before: zypper works in transactions. A lock also
// blocks eksnode, so Install removes the locks of its packages first, and the
// caller sets them again.
func (m zypperManager) Install(ctx context.Context, h *host.Host, names []string) error {
	var plain []string
	for _, name := range names {
		name, _, _ = strings.Cut(name, "=")
		plain = append(plain, name)
	}
	held, err := m.Held(h, plain)
	if err == nil && len(held) > 0 {
		err = m.tool.run(ctx, h, append(zypperLine("removelock", "--"), held...))
	}
	if err != nil {
		return while(installing, err)
	}
	return m.manager.Install(ctx, h, names)
}

func (m zypperManager) Hold(ctx context.Context, h *host.Host, names []string) error {
	return while(holding, m.tool.run(ctx, h, append(zypperLine("addlock", "--"), names...)))
}

var lockedName = show.Regexp(`(?m)^solvable_name: (\S+)$`)

// Held reads zypp's list of locks.
func (zypperManager) Held(h *host.Host, names []string) ([]string, error) {
	text, err := h.Content(zyppLocks)
	if err != nil {
		return nil, fmt.Errorf("reading the held packages: %w", err)
	}
	var held []string
	for _, found := range lockedName().FindAllStringSubmatch(string(text), -1) {
		if slices.Contains(names, found[1]) {
			held = append(held, found[1])
		}
	}
	return held, nil
}

// zypperLocked matches zypper's message about another running process.
const zypperLocked = `System management is locked`
