package distros

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// aptManager is the package manager of Debian and Ubuntu.
type aptManager struct {
	manager
	// options are for every apt-get, dpkgOptions for every dpkg.
	options, dpkgOptions []string
}

// APT is the package manager of Debian, Ubuntu and their derivatives.
func APT() PackageManager { return newApt(lockPatience) }

func newApt(patience time.Duration) aptManager {
	keep := []string{"--force-confdef", "--force-confold"} // never ask about a changed configuration file
	options := []string{
		"--yes", "--quiet",
		"-o", fmt.Sprintf("DPkg::Lock::Timeout=%d", int(patience/time.Second)),
		"-o", "Acquire::Retries=3",
		"-o", "APT::Update::Error-Mode=any", // or an unreachable repository is a mere warning
		// With its own terminal, dpkg would leave apt's process group and
		// continue after apt stops.
		"-o", "Dpkg::Use-Pty=0",
		"-o", aptUncached,
		"-o", "Acquire::Languages=none", // descriptions, which no installation reads
	}
	for _, k := range keep {
		options = append(options, "-o", "DPkg::Options::="+k)
	}
	m := aptManager{options: options, dpkgOptions: keep}
	m.manager = manager{
		name: "apt", refreshing: "apt-get update", refresh: [][]string{m.get("update")},
		install: m.get("install", "--no-install-recommends", "--allow-change-held-packages", "--allow-downgrades",
			"--no-remove", "--"),
		remove: m.get("remove", "--"), drop: []string{"--auto-remove", "--purge"}, clean: m.get("clean"), pin: "=",
		tool: tool{
			words: 2,
			env: []string{
				"DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true",
				"APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_SUSPEND=1",
			},
			symptoms: "apt", locked: aptLocked, patience: patience,
		},
		kernels: debKernels(), repositories: debRepositories(),
		rules: []scrub.Rule{
			caches("apt", "/var/lib/apt/lists/*", "/var/lib/apt/periodic/*", "/var/cache/apt/*.bin",
				"/var/cache/apt/archives/*.deb", "/var/cache/apt/archives/partial/*",
				"/var/cache/debconf/*-old", "/var/lib/dpkg/*-old", "/var/backups/*"),
			servicePolicy(), packageState("apt", "dpkg(1)", dpkgState, dpkgStatus, dpkgJournal+"/*"),
		},
	}
	return m
}

const (
	// aptUncached keeps apt from writing its index of all packages, some 50 MB on Debian, after
	// each change of one package. The index of the repositories alone is kept between calls.
	aptUncached = "Dir::Cache::pkgcache="

	dpkgStatus = "/var/lib/dpkg/status"
	policyPath = "/usr/sbin/policy-rc.d"
	// policy stops packages from starting their services during the
	// installation: a service that runs on the builder machine leaves its state
	// in the image. See invoke-rc.d(8). The policy must be a file on disk,
	// which survives a killed run: invoke-rc.d and deb-systemd-invoke read only
	// that path, not a variable. A mount over the path, in a private namespace,
	// needs a file below it as well, and would hide mounts of packages from the
	// machine. Finish and Leftover remove the file.
	policy = "#!/bin/sh\n# eksnode: no service starts while packages are installed\nexit 101\n"
)

// Installed reads dpkg's database, which works for an image root and needs no
// command. Changes that an interrupted dpkg has not written there count as
// missing; Install finishes them.
func (aptManager) Installed(_ context.Context, h *host.Host, names []string) (map[string]string, error) {
	text, err := h.Content(dpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("reading the installed packages: %w", err)
	}
	found, provided := map[string]string{}, map[string]string{}
	for p := range packages.Paragraphs(string(text)) {
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

// chosen returns the requested names; a real package comes before a package
// that only provides the name.
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

// get returns a command line of apt-get.
func (m aptManager) get(verb string, more ...string) []string {
	return append(append([]string{"apt-get", verb}, m.options...), more...)
}

func (m aptManager) Install(ctx context.Context, h *host.Host, names []string) (err error) {
	restore, err := quiet(h)
	if err != nil {
		return while(installing, err)
	}
	defer func() { err = errors.Join(err, restore()) }()
	// The installation may repair this failure, so it counts only if the
	// installation fails too.
	unfinished := m.tool.run(ctx, h, m.configure())
	if err := m.tool.run(ctx, h, slices.Concat(m.install, names)); err != nil {
		return while(installing, errors.Join(err, unfinished))
	}
	return nil
}

func (m aptManager) Hold(ctx context.Context, h *host.Host, names []string) error {
	return while(holding, m.tool.run(ctx, h, append([]string{"apt-mark", "-o", aptUncached, "hold"}, names...)))
}

// Held reads the selection of each package in dpkg's database.
func (aptManager) Held(h *host.Host, names []string) ([]string, error) {
	text, err := h.Content(dpkgStatus)
	if err != nil {
		return nil, fmt.Errorf("reading the held packages: %w", err)
	}
	var held []string
	for p := range packages.Paragraphs(string(text)) {
		if strings.HasPrefix(p["Status"], "hold ") && slices.Contains(names, p["Package"]) {
			held = append(held, p["Package"])
		}
	}
	return held, nil
}

// quiet stops services from starting until restore is called. If the machine
// has its own policy, that policy stays in force.
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

// aptLocked matches the messages of apt and dpkg about another running process.
// The lock of the lists and dpkg's own lock have no timeout of their own.
const aptLocked = `Could not get lock|(was|is) locked by (another process|\S+ process with pid)`
