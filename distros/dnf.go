package distros

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// dnfManager is the package manager of Amazon Linux 2023 and Red Hat's family,
// and yum, which came before it and is called in the same way.
type dnfManager struct {
	transactional
	// name is the command; refresh are the lines that learn what the
	// repositories offer.
	name    string
	refresh [][]string
	// conf is its configuration, and exclude the field that holds packages.
	conf, exclude string
	// options are given to every dnf.
	options []string
	// held is the option that installs and removes held packages too.
	held string
	tool tool
	// state is the audit rule for packages that an interrupted run left half done.
	state scrub.Rule
}

// DNF is the package manager of Amazon Linux 2023, Fedora and Red Hat's family. It
// would wait for another dnf process forever. Options turn that off, and eksnode calls dnf again instead. dnf 5 ignores the option, so eksnode stops it.
func DNF() PackageManager { return newDnf(lockPatience) }

func newDnf(patience time.Duration) PackageManager {
	return dnfManager{
		name: "dnf", refresh: [][]string{{"makecache", "--refresh"}}, conf: "/etc/dnf/dnf.conf", exclude: "excludepkgs",
		options: []string{
			"--assumeyes", "--setopt=install_weak_deps=False", "--setopt=retries=3", "--setopt=timeout=60",
			"--setopt=*.skip_if_unavailable=False", // or an unreachable repository is a mere warning
			"--setopt=exit_on_lock=True",
			"--setopt=protect_running_kernel=False", // the image may start with another
		},
		held:  "--setopt=disable_excludes=main", // dnf 5 has no --disableexcludes
		tool:  tool{words: 2, symptoms: rpmSymptoms(), locked: dnfLocked, waits: dnf5Waits, log: "/var/log/dnf5.log", patience: patience},
		state: packageState("dnf", "dnf(8), rpm(8)", rpmState(`run "dnf remove --duplicates"`), rpmPaths...),
	}
}

// Yum is the package manager of Amazon Linux 2. It has neither weak
// dependencies nor the option --refresh of makecache.
func Yum() PackageManager { return newYum(lockPatience) }

func newYum(patience time.Duration) PackageManager {
	return dnfManager{
		name: "yum", refresh: [][]string{{"clean", "expire-cache"}, {"makecache"}}, conf: "/etc/yum.conf", exclude: "exclude",
		options: []string{
			"--assumeyes", "--setopt=retries=3", "--setopt=timeout=60",
			"--setopt=skip_missing_names_on_install=0", // or a missing package is a mere warning
			"--setopt=exit_on_lock=1",
		},
		held:  "--disableexcludes=main",
		tool:  tool{words: 2, symptoms: rpmSymptoms(), locked: dnfLocked, patience: patience},
		state: packageState("yum", "yum-complete-transaction(8), package-cleanup(1)", yumState, append([]string{yumJournal}, rpmPaths...)...),
	}
}

func (m dnfManager) Name() string { return m.name }

// Installed queries rpm. The form of rpm's database changes from release to
// release, so eksnode does not read the file, and an image root has no running
// rpm.
func (m dnfManager) Installed(ctx context.Context, h *host.Host, names []string) (map[string]string, error) {
	return rpmVersions(ctx, h, names)
}

// rpmVersions returns the versions of the installed packages.
func rpmVersions(ctx context.Context, h *host.Host, names []string) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range names {
		version, err := rpmVersion(ctx, h, name)
		if err != nil {
			return nil, fmt.Errorf("querying rpm for the package %s: %w", name, err)
		}
		if version != "" {
			found[name] = version
		}
	}
	return found, nil
}

// rpmVersion returns the version, or "" if no installed package has or provides
// that name.
func rpmVersion(ctx context.Context, h *host.Host, name string) (string, error) {
	argv := []string{"rpm", "--query", "--whatprovides", `--queryformat=%{NAME}\t%{EVR}\n`, "--", name}
	out, err := h.Run(ctx, host.Command{Argv: argv, Env: []string{"LC_ALL=C"}})
	var failed *host.CommandError
	if errors.As(err, &failed) && failed.ExitCode() == 1 && strings.Contains(failed.Output, "no package provides") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	version := ""
	for line := range strings.Lines(string(out)) {
		pkg, evr, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if version == "" || pkg == name {
			version = evr
		}
	}
	return version, nil
}

func (m dnfManager) Refreshing() string { return m.name + " makecache" }

// line is a command line of dnf.
func (m dnfManager) line(verb string, more ...string) []string {
	return append(append([]string{m.name, verb}, m.options...), more...)
}

func (m dnfManager) Refresh(ctx context.Context, h *host.Host) error {
	for _, r := range m.refresh {
		if err := m.tool.run(ctx, h, m.line(r[0], r[1:]...)); err != nil {
			return fmt.Errorf("refreshing the package lists: %w", err)
		}
	}
	return nil
}

// Pinned implements PackageManager.
func (m dnfManager) Pinned(name, version string) (string, error) { return name + "-" + version, nil }

// Hold needs no plug-in: dnf neither installs nor upgrades packages that its
// configuration excludes. Install ignores the exclusion.
func (m dnfManager) Hold(_ context.Context, h *host.Host, names []string) error {
	return holding(extendConf(h, m.conf, "main", m.exclude, names))
}

func (m dnfManager) Held(h *host.Host, names []string) ([]string, error) {
	return confHas(h, m.conf, "main", m.exclude, names)
}

func (m dnfManager) Remove(ctx context.Context, h *host.Host, names []string) error {
	return removing(m.tool.run(ctx, h, m.line("remove", append([]string{m.held, "--"}, names...)...)))
}

// Install needs no repair before: dnf works in transactions.
func (m dnfManager) Install(ctx context.Context, h *host.Host, names []string) error {
	return installing(m.tool.run(ctx, h, m.line("install", append([]string{m.held, "--"}, names...)...)))
}

// Leftover returns nothing: packages of rpm do not start their services.
func (dnfManager) Leftover(*host.Host) ([]string, error) { return nil, nil }

func (m dnfManager) Clean(ctx context.Context, h *host.Host) error {
	if err := m.tool.run(ctx, h, m.line("clean", "packages")); err != nil {
		return fmt.Errorf("deleting downloaded packages: %w", err)
	}
	return nil
}

// dnfLocked matches the messages of dnf, dnf 5, yum and rpm about another running
// process. rpm uses fcntl(2), and the path in its message is the locked file.
const dnfLocked = `already locked by \d+|another app is currently holding|Existing lock \S+|Failed to obtain rpm transaction lock|` + dnf5Waits +
	`|can't create transaction lock on (\S+) \(Resource temporarily unavailable\)`

// dnf5Waits matches the output of a dnf 5 that waits for another one: the message,
// then a line for each process, then advice.
const dnf5Waits = `Waiting for a lock on [^\n]*(?:\n(?:\d+[\t ][^\n]*|Use the [^\n]*)?)*\z`

func rpmSymptoms() []symptom {
	return append(diskSymptoms(), []symptom{
		{dnfLocked, stillRunning},
		{`(?:Unable to find a match:|No match for argument:|No package|Not available:) (\S+)`, noPackage},
		{`(?:Failed to download metadata for repo|Cannot find a valid baseurl for repo|Failure getting repository|One of the configured repositories failed)[:( ]*'?([^')\s]+)`, noRepository},
		{`Failed to download metadata \((?:baseurl|mirrorlist|metalink): ".*?"\) for repository "([^"]+)"`, noRepository}, // dnf 5
		{`There are no enabled repositories|No matching repositories for \*`, "this machine has no enabled repository; enable one in /etc/yum.repos.d"},
		{`checksum doesn't match|has incorrect checksum`, "a package differs from the repository's index; repeat when the mirror is up to date, or use another mirror"},
		{`Cannot download (\S+): All mirrors were tried`, "the package $1 could not be downloaded; check the machine's network, proxy and repositories"},
		{`(package \S+ .*conflicts with \S+ provided by \S+)`, conflicts},
		{`GPG check FAILED|OpenPGP check for package \S+ .*has failed|Signature verification failed|is not signed|enabled checking of packages via GPG keys|repomd.xml signature could not be verified`, "a package's or a repository's signature could not be verified"},
	}...)
}

// RepositoryForm implements PackageManager. dnf imports the keys that a repository names.
func (dnfManager) RepositoryForm() RepositoryForm { return rpmRepositories("/etc/yum.repos.d") }

// Kernels implements PackageManager. yum has no repoquery of its own.
func (m dnfManager) Kernels() Kernels {
	if m.name == "yum" {
		return Kernels{}
	}
	return rpmKernels(m.name, "repoquery", "--quiet", `--queryformat=%{name}\n`, "kernel*")
}

// ScrubRules implements PackageManager.
func (m dnfManager) ScrubRules() []scrub.Rule {
	return append(caches("dnf", "/var/cache/dnf/*", "/var/cache/libdnf5/*", "/var/cache/yum/*", "/var/lib/dnf/history.sqlite*", "/var/lib/dnf/repos/*",
		"/var/lib/yum/history/*", "/var/lib/yum/uuid", "/usr/lib/sysimage/libdnf5/transaction_history.sqlite*"), m.state)
}
