package distros

import (
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// caches is the scrub rule of a package manager: its downloads and its records
// of the build. The tools' own cleaning commands leave half of them (pacman
// -Scc --noconfirm the packages, dnf clean all the history).
func caches(manager string, paths ...string) scrub.Rule {
	return scrub.Rule{
		ID: manager + "-caches", Phase: scrub.Caches, Groups: []string{"caches", "packages"}, Verb: plan.Remove,
		Paths: paths, Owner: manager,
		Why:         "old package lists and downloads make the image larger",
		Regenerated: manager + ", when it next looks for updates", Source: "virt-sysprep, " + manager + "'s manual",
	}
}

// identity is the scrub rule for files with which a package manager tells one
// machine from another.
func identity(id, owner, why, regenerated, source string, paths ...string) scrub.Rule {
	return scrub.Rule{
		ID: id, Phase: scrub.Identity, Groups: []string{"identity", "packages"}, Verb: plan.Remove,
		Paths: paths, Owner: owner, Why: why, Regenerated: regenerated, Source: source,
	}
}

// packageState is the audit rule of a package manager: packages that an
// interrupted run left half done. It reads the database, also on an image root.
func packageState(manager, source string, look func(*scrub.Draft), paths ...string) scrub.Rule {
	return scrub.Rule{
		ID: manager + "-state", Phase: scrub.Inspect, Groups: []string{"packages", "package-state"}, Verb: scrub.Report,
		Paths: paths, Owner: manager,
		Why: "a package that is half installed or not configured does not work, and blocks the next " +
			"installation",
		Regenerated: manager, Source: source,
		Look: look,
	}
}

var packageName = show.Regexp(`^[A-Za-z0-9@_][A-Za-z0-9@+._:~^-]{0,254}$`)

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
