package distros

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// All returns the known distributions, sorted by ID. Each is a function in its
// own file. The ends of support come from the table of package versions.
func All() []Distro {
	all := []Distro{
		almaLinux(),
		amazonLinux2(),
		amazonLinux2023(),
		arch(),
		debian(),
		fedora(),
		flatcar(),
		openSUSELeap15(),
		openSUSELeap16(),
		rhel(),
		rocky(),
		sles16(),
		sles(),
		ubuntu(),
	}
	for _, d := range all {
		for version, facts := range d.Releases {
			for _, r := range lifecycle.Of(d.ID) {
				if r.Version == version {
					facts.Ends = append(facts.Ends, End{r.Of, r.Ends, r.Source})
				}
			}
			d.Releases[version] = facts
		}
	}
	slices.SortFunc(all, func(a, b Distro) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// ScrubRules returns the rules of all distributions, for a machine whose distribution is
// not known.
func ScrubRules() []scrub.Rule {
	var rules []scrub.Rule
	for _, d := range All() {
		for _, r := range d.ScrubRules() {
			if !slices.ContainsFunc(rules, func(other scrub.Rule) bool { return other.ID == r.ID }) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// AllUnprovisioned returns the systems that are refused by name, sorted by ID.
func AllUnprovisioned() []Unprovisioned {
	all := []Unprovisioned{alpine(), bottlerocket(), windows()}
	slices.SortFunc(all, func(a, b Unprovisioned) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// ByID returns the distribution with an ID. An unknown ID is an error that
// lists the known ones.
func ByID(id string) (Distro, error) {
	for _, d := range All() {
		if d.ID == id {
			return d, nil
		}
	}
	for _, u := range AllUnprovisioned() {
		if u.ID == id {
			return Distro{}, surface.Errorf("%s %q: %w", byName, id, u.Err())
		}
	}
	return Distro{}, surface.Errorf("%s %q is not known; known are %s%s", byName, id, strings.Join(IDs(), ", "),
		show.Meant(id, IDs()))
}

// IDs returns the IDs of the known distributions.
func IDs() []string {
	return show.Each(All(), func(d Distro) string { return d.ID })
}

// covers reports whether the distribution supports a VERSION_ID.
func (d Distro) covers(version string) bool {
	if len(d.Versions) == 0 {
		return true
	}
	major, _, _ := strings.Cut(version, ".")
	return slices.ContainsFunc(d.Versions, func(v string) bool {
		return v == version || !strings.Contains(v, ".") && v == major
	})
}
