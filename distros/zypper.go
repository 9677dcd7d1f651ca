package distros

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// zypperManager is SUSE's package manager.
type zypperManager struct {
	transactional
	// options come before every command.
	options []string
	tool    tool
}

// Zypper is the package manager of SUSE and openSUSE.
func Zypper() PackageManager { return newZypper() }

func newZypper() zypperManager {
	return zypperManager{
		// Two options that would seem to help do harm: --no-gpg-checks, and
		// --gpg-auto-import-keys, which trusts any key that a repository sends.
		options: []string{"--non-interactive"},
		tool:    tool{words: 3, symptoms: zypperSymptoms(), locked: zypperLocked, patience: lockPatience},
	}
}

const zyppLocks = "/etc/zypp/locks"

func (zypperManager) Name() string { return "zypper" }

// Installed queries rpm, as dnf's Installed does.
func (zypperManager) Installed(ctx context.Context, h *host.Host, names []string) (map[string]string, error) {
	return rpmVersions(ctx, h, names)
}

func (zypperManager) Refreshing() string { return "zypper refresh" }

// line is a command line of zypper.
func (m zypperManager) line(words ...string) []string {
	return append(append([]string{"zypper"}, m.options...), words...)
}

// Refresh refreshes all repositories together. Without --force, zypper skips
// repositories that it refreshed a moment ago.
func (m zypperManager) Refresh(ctx context.Context, h *host.Host) error {
	if err := m.tool.run(ctx, h, m.line("refresh", "--force")); err != nil {
		return fmt.Errorf("refreshing the package lists: %w", err)
	}
	return nil
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
		err = m.tool.run(ctx, h, m.line(append([]string{"removelock", "--"}, held...)...))
	}
	if err != nil {
		return installing(err)
	}
	return installing(m.tool.run(ctx, h, m.line(append([]string{
		"install", "--no-recommends", "--auto-agree-with-licenses", "--oldpackage", "--",
	}, names...)...)))
}

// Pinned implements PackageManager.
func (zypperManager) Pinned(name, version string) (string, error) { return name + "=" + version, nil }

func (m zypperManager) Hold(ctx context.Context, h *host.Host, names []string) error {
	return holding(m.tool.run(ctx, h, m.line(append([]string{"addlock", "--"}, names...)...)))
}

var lockedName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^solvable_name: (\S+)$`) })

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

func (m zypperManager) Remove(ctx context.Context, h *host.Host, names []string) error {
	return removing(m.tool.run(ctx, h, m.line(append([]string{"remove", "--"}, names...)...)))
}

// Leftover returns nothing: packages of rpm do not start their services.
func (zypperManager) Leftover(*host.Host) ([]string, error) { return nil, nil }

func (m zypperManager) Clean(ctx context.Context, h *host.Host) error {
	if err := m.tool.run(ctx, h, m.line("clean", "--all")); err != nil {
		return fmt.Errorf("deleting downloaded packages: %w", err)
	}
	return nil
}

func zypperSymptoms() []symptom {
	return append(diskSymptoms(), []symptom{
		{zypperLocked, stillRunning},
		{`(?:No provider of|Package) '(.+?)' (?:found|not found)`, noPackage},
		{`'(\S+?)' not found in package names`, noPackage},
		{`nothing provides '?(\S+?)'? needed by`, noPackage},
		{`(?m)((?:the (?:to be )?installed )?\S+ conflicts with .+)$`, conflicts},
		{`Signature verification failed|is unsigned|unknown (?:GPG )?key|Package is not signed|Package header is not signed|failed signature`, "a package's or a repository's signature could not be verified"},
		{`Repository '(.+?)' is invalid`, noRepository},
		{`Failed to (?:retrieve|refresh)[^']*'(.+?)'`, noRepository},
	}...)
}

// zypperLocked matches zypper's message about another running process.
const zypperLocked = `System management is locked`

// RepositoryForm implements PackageManager.
func (zypperManager) RepositoryForm() RepositoryForm {
	return rpmRepositories("/etc/zypp/repos.d", "rpm", "--import")
}

// Kernels implements PackageManager.
func (zypperManager) Kernels() Kernels {
	return rpmKernels("zypper", "--quiet", "search", "--type", "package", "kernel*")
}

// ScrubRules implements PackageManager.
func (zypperManager) ScrubRules() []scrub.Rule {
	return append(append(caches("zypper", "/var/cache/zypp/*", "/var/log/zypp/history", "/var/log/zypper.log"),
		identity("zypper-id", "zypper", "two machines would count as one, and the vendor could link both to the builder machine",
			"zypper, at its next refresh", "libzypp, AnonymousUniqueId", "/var/lib/zypp/AnonymousUniqueId")...),
		packageState("zypper", "zypper(8), rpm(8)", rpmState(`remove the older with "rpm --erase" and run "zypper verify"`), rpmPaths...))
}
