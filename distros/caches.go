package distros

import (
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// caches is the scrub rule of a package manager: its downloads and its records
// of the build. The tools' own cleaning commands leave half of them (pacman
// -Scc --noconfirm the packages, dnf clean all the history).
func caches(manager string, paths ...string) []scrub.Rule {
	return []scrub.Rule{{
		ID: manager + "-caches", Phase: scrub.Caches, Groups: []string{"caches", "packages"}, Verb: plan.Remove,
		Paths: paths, Owner: manager,
		Why:         "old package lists and downloads make the image larger",
		Regenerated: manager + ", when it next looks for updates", Source: "virt-sysprep, " + manager + "'s manual",
	}}
}

func aptCaches() []scrub.Rule {
	return caches("apt", "/var/lib/apt/lists/*", "/var/lib/apt/periodic/*", "/var/cache/apt/*.bin", "/var/cache/apt/archives/*.deb",
		"/var/cache/apt/archives/partial/*", "/var/cache/debconf/*-old", "/var/lib/dpkg/*-old", "/var/backups/*")
}

func dnfCaches() []scrub.Rule {
	return caches("dnf", "/var/cache/dnf/*", "/var/cache/libdnf5/*", "/var/cache/yum/*", "/var/lib/dnf/history.sqlite*", "/var/lib/dnf/repos/*", "/var/lib/yum/history/*", "/var/lib/yum/uuid", "/usr/lib/sysimage/libdnf5/transaction_history.sqlite*")
}

func pacmanCaches() []scrub.Rule {
	return caches("pacman", "/var/cache/pacman/pkg/*", "/var/lib/pacman/sync/*", "/var/lib/pacman/db.lck")
}

func zypperCaches() []scrub.Rule {
	return caches("zypper", "/var/cache/zypp/*", "/var/log/zypp/history", "/var/log/zypper.log")
}

// identity is the scrub rule for files with which a package manager tells one
// machine from another.
func identity(id, owner, why, regenerated, source string, paths ...string) []scrub.Rule {
	return []scrub.Rule{{
		ID: id, Phase: scrub.Identity, Groups: []string{"identity", "packages"}, Verb: plan.Remove,
		Paths: paths, Owner: owner, Why: why, Regenerated: regenerated, Source: source,
	}}
}
