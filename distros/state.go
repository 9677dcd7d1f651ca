package distros

import (
	"context"
	"fmt"
	"regexp"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// packageState is the audit rule of a package manager: packages that an
// interrupted run left half done. It reads the database, also on an image root.
func packageState(manager, source string, find func(context.Context, *host.Host) (plan.Answer, error), paths ...string) scrub.Rule {
	return scrub.Rule{
		ID: manager + "-state", Phase: scrub.Inspect, Groups: []string{"packages", "package-state"}, Verb: scrub.Report,
		Paths: paths, Owner: manager,
		Why:         "a package that is half installed or not configured does not work, and blocks the next installation",
		Regenerated: manager, Source: source,
		Find: find,
	}
}

// aptScrub are the rules of machines with apt.
func aptScrub() []scrub.Rule {
	return append(aptCaches(), servicePolicy(), packageState("apt", "dpkg(1)", dpkgState, dpkgStatus, dpkgJournal+"/*"))
}

// dnfScrub are the rules of machines with dnf.
func dnfScrub() []scrub.Rule {
	return append(dnfCaches(), packageState("dnf", "dnf(8), rpm(8)", rpmState(`run "dnf remove --duplicates"`), rpmPaths...))
}

// yumScrub are the rules of machines with yum.
func yumScrub() []scrub.Rule {
	return append(dnfCaches(), packageState("yum", "yum-complete-transaction(8), package-cleanup(1)", yumState, append([]string{yumJournal}, rpmPaths...)...))
}

// zypperScrub are the rules of machines with zypper.
func zypperScrub() []scrub.Rule {
	return append(append(zypperCaches(), identity("zypper-id", "zypper", "two machines would count as one, and the vendor could link both to the builder machine",
		"zypper, at its next refresh", "libzypp, AnonymousUniqueId", "/var/lib/zypp/AnonymousUniqueId")...), packageState("zypper", "zypper(8), rpm(8)", rpmState(`remove the older with "rpm --erase" and run "zypper verify"`), rpmPaths...))
}

// pacmanScrub are the rules of machines with pacman.
func pacmanScrub() []scrub.Rule {
	return append(append(pacmanCaches(), identity("pacman-key", "pacman-key", "every node would have the private key with which its package manager trusts other keys",
		`"pacman-key --init"; packages can be installed without it`, "pacman-key(8)", "/etc/pacman.d/gnupg/private-keys-v1.d/*", "/etc/pacman.d/gnupg/openpgp-revocs.d/*", "/etc/pacman.d/gnupg/secring.gpg", "/etc/pacman.d/gnupg/random_seed", "/etc/pacman.d/gnupg/S.*")...), packageState("pacman", "pacman(8)", pacmanState, pacmanLock, pacmanLocal+"/*"))
}

var packageName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9@_][A-Za-z0-9@+._:~^-]{0,254}$`) })

// plainName returns a name from a database for messages and commands. A name
// that no package can have is cut and quoted.
func plainName(name string) string {
	if packageName().MatchString(name) {
		return name
	}
	return fmt.Sprintf("%.80q", name)
}

// database reads a file of a package database; nil if the file does not exist.
func database(h *host.Host, name string) ([]byte, error) {
	text, err := h.Content(name)
	if err != nil {
		return nil, fmt.Errorf("reading the state of packages: %w", err)
	}
	return text, nil
}
