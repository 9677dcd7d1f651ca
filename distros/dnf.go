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
)

// dnfManager is the package manager of Amazon Linux 2023 and Red Hat's family,
// and yum, which came before it and is called in the same way.
type dnfManager struct {
	manager
	rpmDatabase
	holdsInConf
}

// DNF is the package manager of Amazon Linux 2023, Fedora and Red Hat's family. It
// would wait for another dnf process forever. Options turn that off, and eksnode calls dnf
// again instead. dnf 5 ignores the option, so eksnode stops it.
func DNF() PackageManager { return newDnf(lockPatience) }

func newDnf(patience time.Duration) PackageManager {
	m := newRpmManager("dnf", patience, "--setopt=disable_excludes=main", // dnf 5 has no --disableexcludes
		[]string{
			"--assumeyes", "--setopt=install_weak_deps=False", "--setopt=retries=3", "--setopt=timeout=60",
			"--setopt=*.skip_if_unavailable=False", // or an unreachable repository is a mere warning
			"--setopt=exit_on_lock=True",
			"--setopt=protect_running_kernel=False", // the image may start with another
		}, []string{"makecache", "--refresh"})
	m.tool.waits, m.tool.log = dnf5Waits, "/var/log/dnf5.log"
	m.holdsInConf = holdsInConf{"/etc/dnf/dnf.conf", "main", "excludepkgs"}
	m.kernels = rpmKernels("dnf", "repoquery", "--quiet", `--queryformat=%{name}\n`, "kernel*")
	state := rpmState(`run "dnf remove --duplicates"`)
	m.rules = append(m.rules, packageState("dnf", "dnf(8), rpm(8)", state, rpmPaths...))
	return m
}

// Yum is the package manager of Amazon Linux 2. It has neither weak
// dependencies nor the option --refresh of makecache.
func Yum() PackageManager { return newYum(lockPatience) }

func newYum(patience time.Duration) PackageManager {
	m := newRpmManager("yum", patience, "--disableexcludes=main", []string{
		"--assumeyes", "--setopt=retries=3", "--setopt=timeout=60",
		"--setopt=skip_missing_names_on_install=0", // or a missing package is a mere warning
		"--setopt=exit_on_lock=1",
	}, []string{"clean", "expire-cache"}, []string{"makecache"})
	m.holdsInConf = holdsInConf{"/etc/yum.conf", "main", "exclude"}
	m.rules = append(m.rules, packageState("yum", "yum-complete-transaction(8), package-cleanup(1)", yumState,
		append([]string{"/var/lib/yum/transaction-all.*"}, rpmPaths...)...))
	return m
}

// newRpmManager is dnf or yum. The option held installs and removes held packages too, options
// are for every command, and refresh learns what the repositories offer.
func newRpmManager(name string, patience time.Duration, held string, options []string, refresh ...[]string) dnfManager {
	line := func(verb string, more ...string) []string { return slices.Concat([]string{name, verb}, options, more) }
	m := manager{
		name: name, refreshing: name + " makecache",
		tool:    tool{words: 2, symptoms: "rpm", locked: dnfLocked, patience: patience},
		install: line("install", held, "--"), remove: line("remove", held, "--"), clean: line("clean", "packages"),
		pin:          "-",
		repositories: rpmRepositories("/etc/yum.repos.d"), // dnf imports the keys that a repository names
		rules: []scrub.Rule{caches("dnf", "/var/cache/dnf/*", "/var/cache/libdnf5/*", "/var/cache/yum/*",
			"/var/lib/dnf/history.sqlite*", "/var/lib/dnf/repos/*", "/var/lib/yum/history/*", "/var/lib/yum/uuid",
			"/usr/lib/sysimage/libdnf5/transaction_history.sqlite*")},
	}
	for _, words := range refresh {
		m.refresh = append(m.refresh, line(words[0], words[1:]...))
	}
	return dnfManager{manager: m}
}

type rpmDatabase struct{}

// Installed queries rpm. The form of rpm's database changes from release to
// release, so eksnode does not read the file, and an image root has no running
// rpm.
func (rpmDatabase) Installed(ctx context.Context, h *host.Host, names []string) (map[string]string, error) {
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
	if failed, ok := errors.AsType[*host.CommandError](err); ok && failed.ExitCode() == 1 &&
		strings.Contains(failed.Output, "no package provides") {
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

// dnfLocked matches the messages of dnf, dnf 5, yum and rpm about another running
// process. rpm uses fcntl(2), and the path in its message is the locked file.
const dnfLocked = `already locked by \d+|another app is currently holding|Existing lock \S+|` +
	`Failed to obtain rpm transaction lock|` + dnf5Waits +
	`|can't create transaction lock on (\S+) \(Resource temporarily unavailable\)`

// dnf5Waits matches the output of a dnf 5 that waits for another one: the message,
// then a line for each process, then advice.
const dnf5Waits = `Waiting for a lock on [^\n]*(?:\n(?:\d+[\t ][^\n]*|Use the [^\n]*)?)*\z`
