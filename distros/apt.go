package distros

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// aptManager is Debian's and Ubuntu's package manager.
type aptManager struct {
	// options are given to every apt-get, dpkgOptions to every dpkg.
	options, dpkgOptions []string
	tool                 tool
}

func apt() PackageManager { return newApt(lockPatience) }

func newApt(patience time.Duration) aptManager {
	keep := []string{"--force-confdef", "--force-confold"} // never ask about a changed configuration file
	options := []string{
		"--yes", "--quiet",
		"-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", int(patience/time.Second)),
		"-o", "Acquire::Retries=3",
		"-o", "APT::Update::Error-Mode=any", // or an unreachable repository is a mere warning
		// With a terminal of its own dpkg leaves apt's process group, and would
		// go on after apt was told to stop.
		"-o", "Dpkg::Use-Pty=0",
	}
	for _, k := range keep {
		options = append(options, "-o", "DPkg::Options::="+k)
	}
	return aptManager{options: options, dpkgOptions: keep, tool: tool{
		words: 2,
		env: []string{
			"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true",
			"APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_SUSPEND=1",
		},
		symptoms: aptSymptoms(), locked: aptLocked, patience: patience,
	}}
}

const (
	dpkgStatus = "/var/lib/dpkg/status"
	policyPath = "/usr/sbin/policy-rc.d"
	// policy forbids that packages start their services while they are
	// installed: a service that runs on the build machine leaves its state in
	// the image. See invoke-rc.d(8).
	policy = "#!/bin/sh\n# eksnode: no service starts while packages are installed\nexit 101\n"
)

func (aptManager) Name() string { return "apt" }

// Installed reads dpkg's own database, which a mounted root has too and which
// needs no command. What an interrupted dpkg has not written there yet counts
// as missing, and Install finishes it.
func (aptManager) Installed(_ context.Context, h *host.Host, names []string) (map[string]string, error) {
	text, err := h.Content(dpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("reading the installed packages: %w", err)
	}
	found, provided := map[string]string{}, map[string]string{}
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		p := dpkgParagraph(paragraph)
		if !strings.HasSuffix(p["Status"], " ok installed") {
			continue
		}
		found[p["Package"]] = p["Version"]
		for name := range strings.SplitSeq(p["Provides"], ",") {
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			provided[name] = p["Version"]
		}
	}
	return chosen(names, found, provided), nil
}

// dpkgParagraph reads the one-line fields of deb-control(5) that Installed
// needs.
func dpkgParagraph(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if ok && slices.Contains([]string{"Package", "Status", "Version", "Provides"}, name) {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// chosen picks the names that were asked for; a real package comes before one
// that merely provides the name.
func chosen(names []string, found, provided map[string]string) map[string]string {
	versions := map[string]string{}
	for _, name := range names {
		if v, ok := found[name]; ok {
			versions[name] = v
		} else if v, ok := provided[name]; ok {
			versions[name] = v
		}
	}
	return versions
}

func (aptManager) Refreshing() string { return "apt-get update" }

// get is a command line of apt-get.
func (m aptManager) get(verb string, more ...string) []string {
	return append(append([]string{"apt-get", verb}, m.options...), more...)
}

func (m aptManager) Refresh(ctx context.Context, h *host.Host) error {
	if err := m.tool.run(ctx, h, m.get("update")); err != nil {
		return fmt.Errorf("refreshing the package lists: %w", err)
	}
	return nil
}

func (m aptManager) Install(ctx context.Context, h *host.Host, names []string) (err error) {
	restore, err := quiet(h)
	if err != nil {
		return installing(err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	// A failure here may be just what the installation repairs, so it counts
	// only when that fails too.
	unfinished := m.tool.run(ctx, h, append([]string{"dpkg", "--configure", "-a"}, m.dpkgOptions...))
	if err := m.unpackAgain(ctx, h); err != nil {
		return installing(errors.Join(err, unfinished))
	}
	if err := m.tool.run(ctx, h, m.get("install", append([]string{"--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades", "--no-remove", "--"}, names...)...)); err != nil {
		return installing(errors.Join(err, unfinished))
	}
	return nil
}

// unpackAgain installs packages anew during whose unpacking dpkg was killed. Such
// a package can be neither configured nor depended on, and apt takes it for
// installed unless it is told to reinstall it.
func (m aptManager) unpackAgain(ctx context.Context, h *host.Host) error {
	names, err := dpkgWith(h, halfUnpacked())
	if err != nil || len(names) == 0 {
		return err
	}
	return m.tool.run(ctx, h, m.get("install", append([]string{"--reinstall", "--mark-auto", "--no-install-recommends", "--allow-change-held-packages", "--no-remove", "--"}, names...)...))
}

// Pinned implements PackageManager.
func (aptManager) Pinned(name, version string) (string, error) { return name + "=" + version, nil }

func (m aptManager) Hold(ctx context.Context, h *host.Host, names []string) error {
	return holding(m.tool.run(ctx, h, append([]string{"apt-mark", "hold"}, names...)))
}

// Held reads the selection of each package in dpkg's database.
func (aptManager) Held(h *host.Host, names []string) ([]string, error) {
	text, err := h.Content(dpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("reading the held packages: %w", err)
	}
	var held []string
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		p := dpkgParagraph(paragraph)
		if strings.HasPrefix(p["Status"], "hold ") && slices.Contains(names, p["Package"]) {
			held = append(held, p["Package"])
		}
	}
	return held, nil
}

func (m aptManager) Remove(ctx context.Context, h *host.Host, names []string) error {
	return removing(m.tool.run(ctx, h, m.get("remove", append([]string{"--"}, names...)...)))
}

func (m aptManager) Clean(ctx context.Context, h *host.Host) error {
	if err := m.tool.run(ctx, h, m.get("clean")); err != nil {
		return fmt.Errorf("dropping downloaded packages: %w", err)
	}
	return nil
}

// Unfinished implements PackageManager. Such are packages whose triggers were
// not run when dpkg was killed, and those that nothing installed depends on.
func (aptManager) Unfinished(h *host.Host) ([]string, error) { return dpkgWith(h, unfinished()) }

// dpkgWith lists the packages in whose paragraph of dpkg's database a pattern is
// found.
func dpkgWith(h *host.Host, pattern *regexp.Regexp) ([]string, error) {
	text, err := h.Content(dpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("looking for unfinished packages: %w", err)
	}
	var names []string
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		if pattern.MatchString(paragraph) {
			names = append(names, dpkgParagraph(paragraph)["Package"])
		}
	}
	return names, nil
}

// Leftover is the policy that an Install left which was killed. While a package
// is unfinished it stays in force: the killed one's dpkg may still be at work,
// and the next Install takes the policy over.
func (m aptManager) Leftover(h *host.Host) ([]string, error) {
	text, err := h.Content(policyPath)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", policyPath, err)
	}
	if string(text) != policy {
		return nil, nil
	}
	begun, err := m.Unfinished(h)
	if err != nil || len(begun) > 0 {
		return nil, err
	}
	return []string{policyPath}, nil
}

// unfinished is a package's state between not there and installed; see dpkg(1).
var unfinished = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^Status: (install|hold) \S+ (half-installed|unpacked|half-configured|triggers-awaited|triggers-pending)$`)
})

// halfUnpacked is the state of a package that only unpacking again can repair.
var halfUnpacked = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^Status: (install|hold) (reinstreq \S+|\S+ half-installed)$`)
})

// quiet keeps services from starting until restore is called. A policy of the
// machine's own is left in force instead.
func quiet(h *host.Host) (restore func() error, err error) {
	own, err := h.Content(policyPath)
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", policyPath, err)
	}
	if own != nil && string(own) != policy {
		return func() error { return nil }, nil
	}
	if err := h.Files.WriteFile(policyPath, []byte(policy), host.Attributes{Mode: 0o755}); err != nil {
		return nil, fmt.Errorf("keeping services from starting: %w", err)
	}
	return func() error {
		if err := h.Files.Remove(policyPath); err != nil {
			return fmt.Errorf("letting services start again: %w", err)
		}
		return nil
	}, nil
}

func aptSymptoms() []symptom {
	return append(diskSymptoms(), []symptom{
		{`Unable to locate package (\S+)`, noPackage},
		{`Package '(.+?)' has no installation candidate`, noPackage},
		{`Version '(.+?)' for '.+?' was not found`, noVersion},
		{`(\S+ : Conflicts: \S+)`, conflicts},
		{`(?s)The following packages will be REMOVED:\s+(.+?)\n\S.*remove is disabled`, "packages contradict each other: $1 would have to go; remove it, or leave the other out"},
		{`NO_PUBKEY (\S+)`, "a repository is signed with the key $1, which this machine does not trust"},
		{`GPG error: (.+?) (?:In)?Release`, "the signature of the repository $1 could not be verified"},
		{`The repository '(.+?)' (?:does not have a Release file|is not signed|is no longer signed)`, "the repository $1 is not signed or not there; only signed ones are used"},
		{`couldn't be authenticated`, "a package's signature could not be verified"},
		{`Failed to fetch (\S+?)(?:(?:In)?Release|Packages\S*)?\s`, noRepository},
		{aptLocked, stillRunning},
	}...)
}

// aptLocked is how apt and dpkg say that another one is at work. The lists'
// lock and dpkg's own have no time-out of theirs.
const aptLocked = `Could not get lock|was locked by another process|is locked by another process`
