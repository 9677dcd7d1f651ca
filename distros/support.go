package distros

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// ReleaseFacts are the facts about one release of a distribution.
type ReleaseFacts struct {
	// Ends are the ends of support, the distribution's own end first. They are
	// empty for a rolling distribution.
	Ends []End `json:"ends,omitempty"`
	// Containerd is the version of the release's own containerd, such as "1.6" or
	// "2"; empty if it has none.
	Containerd string `json:"containerd,omitempty"`
	// Caution is what people should check in a base image; empty if nothing.
	Caution string `json:"caution,omitempty"`
}

// End is a day on which support ends.
type End struct {
	// Of names what ends, such as "standard support of Ubuntu 22.04".
	Of string `json:"of"`
	// Day is the last day of support in the form of time.DateOnly.
	Day string `json:"day"`
	// Source is the address of the publisher's statement.
	Source string `json:"source"`
}

// soon is how long before its day an end is a warning.
const soon = 90 * 24 * time.Hour

// Warning says that the end has passed, or comes within 90 days of now, and what to do.
// It is empty before that.
func (e End) Warning(now time.Time, remedy string) (string, error) {
	day, err := time.Parse(time.DateOnly, e.Day)
	if err != nil {
		return "", fmt.Errorf("reading the end of %s: %w", e.Of, err)
	}
	switch today := now.UTC().Truncate(24 * time.Hour); {
	case today.After(day):
		return fmt.Sprintf("%s ended on %s; %s (%s)", e.Of, e.Day, remedy, e.Source), nil
	case day.Sub(today) <= soon:
		return fmt.Sprintf("%s ends on %s; %s (%s)", e.Of, e.Day, remedy, e.Source), nil
	}
	return "", nil
}

// Last returns the last end of support; the zero value if the release has none.
func (f ReleaseFacts) Last() End {
	if len(f.Ends) == 0 {
		return End{}
	}
	return slices.MaxFunc(f.Ends, func(a, b End) int { return strings.Compare(a.Day, b.Day) })
}

// Ended reports whether every support of the release had ended before now.
func (f ReleaseFacts) Ended(now time.Time) bool {
	last := f.Last().Day
	return last != "" && last < now.UTC().Format(time.DateOnly)
}

// facts returns the facts of a release. Those of "9.4" are those of "9" without
// an entry of its own. A version that is not listed gets the containerd of the
// newest listed one: only the option distro selects such a version.
func (d Distro) facts(version string) ReleaseFacts {
	if len(d.Versions) == 0 {
		return d.Releases[""]
	}
	major, _, _ := strings.Cut(version, ".")
	for _, v := range []string{version, major} {
		if f, ok := d.Releases[v]; ok {
			return f
		}
	}
	return ReleaseFacts{Containerd: d.Releases[d.Versions[len(d.Versions)-1]].Containerd}
}

// EveryRelease returns the distribution as each of its releases, the oldest
// first. A rolling distribution has one.
func (d Distro) EveryRelease() []Distro {
	if len(d.Versions) == 0 {
		return []Distro{d.of("")}
	}
	return show.Each(d.Versions, d.of)
}

// ReleaseNames are the versions that Releases has facts of, sorted: "" for a
// rolling distribution.
func (d Distro) ReleaseNames() []string {
	return slices.SortedFunc(maps.Keys(d.Releases), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(strings.Split(a, ".")[0]), len(strings.Split(b, ".")[0])), strings.Compare(a, b))
	})
}

// ByEnd divides the known distributions into those with a release whose support had not
// ended before a day, and those without.
func ByEnd(now time.Time) (current, ended []Distro) {
	for _, d := range All() {
		supported := false
		for _, facts := range d.Releases {
			supported = supported || !facts.Ended(now)
		}
		if supported {
			current = append(current, d)
		} else {
			ended = append(ended, d)
		}
	}
	return current, ended
}

// SupportEnds lists the last days of the distribution's own support, by version, for
// tables.
func (d Distro) SupportEnds() string {
	var list []string
	for _, version := range d.ReleaseNames() {
		if ends := d.Releases[version].Ends; len(ends) > 0 {
			list = append(list, version+": "+ends[0].Day)
		}
	}
	if list == nil {
		return "none"
	}
	return strings.Join(list, ", ")
}

// FromUpstream reports whether containerd comes from upstream's archive.
func (d Distro) FromUpstream() bool { return slices.Contains(d.Upstream, "containerd") }

// HasOldContainerd reports whether the release's own containerd is older than a
// major version.
func (d Distro) HasOldContainerd(major int) bool {
	if d.FromUpstream() {
		return false
	}
	own, _, _ := strings.Cut(d.Release.Containerd, ".")
	n, err := strconv.Atoi(own)
	return err != nil || n < major
}

// WithContainerd returns the distribution with containerd and runc from upstream
// archives if its own containerd is older than a major version.
func (d Distro) WithContainerd(major int) Distro {
	if !d.HasOldContainerd(major) {
		return d
	}
	packages := map[Role][]string{}
	maps.Copy(packages, d.Packages)
	packages[ContainerRuntime] = []string{}
	d.Packages, d.Upstream = packages, append(slices.Clone(d.Upstream), "containerd", "runc")
	return d
}
