package distros

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// ErrUnknown means that os-release(5) of a machine names no known distribution.
var ErrUnknown = errors.New("the distribution is not known")

// unknownError is an error of Detect that is ErrUnknown.
type unknownError struct{ error }

func (unknownError) Is(target error) bool { return target == ErrUnknown }
func (e unknownError) Unwrap() error      { return e.error }

// byName is the option that overrides os-release(5).
const byName = surface.Name("distro")

// Detect returns the distribution of a machine. override is the ID of a known
// distribution and wins over os-release(5). Without override, ID and VERSION_ID
// of os-release(5) must both be known. ID_LIKE is never used, because it would
// confuse Amazon Linux 2 with a Red Hat that has NetworkManager; only the hint
// in the error names it. Where os-release(5) does not help, the error is ErrUnknown.
func Detect(h *host.Host, override string) (Distro, Release, error) {
	release, err := ReadRelease(h)
	if override != "" {
		d, err := ByID(override) // also without a readable os-release
		return d.of(release.VersionID), release, err
	}
	if err != nil {
		err = surface.Errorf("%w; name the distribution with %s, one of %s", err,
			surface.Words{HCL: `distro = "…"`, Flags: "--distro …"}, strings.Join(IDs(), ", "))
		return Distro{}, release, unknownError{err}
	}
	d, err := match(release)
	if err != nil {
		return Distro{}, release, unknownError{err}
	}
	return d.of(release.VersionID), release, nil
}

// ForHost returns the distribution as the release that a machine has. It is for a
// value that a program brings itself: os-release(5) of the machine must have an ID
// and a VERSION_ID of the value.
func (d Distro) ForHost(h *host.Host) (Distro, Release, error) {
	if err := d.Validate(); err != nil {
		return Distro{}, Release{}, err
	}
	release, err := ReadRelease(h)
	if err == nil && (!slices.Contains(d.OSRelease, release.ID) || !d.covers(release.VersionID)) {
		err = fmt.Errorf("%s is not %s, which has the IDs %s and the versions %s", release, d.Name,
			strings.Join(d.OSRelease, ", "), strings.Join(d.Versions, ", "))
	}
	return d.of(release.VersionID), release, err
}

func match(release Release) (Distro, error) {
	for _, u := range AllUnprovisioned() {
		if slices.Contains(u.OSRelease, release.ID) {
			return Distro{}, fmt.Errorf("%s: %w", release, u.Err())
		}
	}
	var covered []Distro
	for _, d := range All() {
		if !slices.Contains(d.OSRelease, release.ID) {
			continue
		}
		if d.covers(release.VersionID) {
			return d, nil
		}
		covered = append(covered, d)
	}
	if covered != nil {
		versions := func(distro string) string {
			var list []string
			for _, d := range covered {
				list = append(list, fmt.Sprintf("%s (%s %q)", strings.Join(d.Versions, ", "), distro, d.ID))
			}
			return strings.Join(list, " and ")
		}
		return Distro{}, surface.Errorf("%s is not supported; supported are the versions %s; to try this version "+
			"anyway, set %s to that name",
			release, surface.Words{HCL: versions(string(byName)), Flags: versions(byName.Flag())}, byName)
	}
	return Distro{}, unknown(release)
}

func unknown(release Release) error {
	msg := fmt.Sprintf("%s is not known; known are %s", release, strings.Join(IDs(), ", "))
	if strings.HasPrefix(release.PlatformID, "platform:el") {
		return surface.Errorf("%s; its PLATFORM_ID is that of a release of RHEL: if the machine behaves like it, "+
			"set %s", msg, byName.Is("rhel"))
	}
	if like := alike(release); len(like) > 0 {
		return surface.Errorf("%s; its ID_LIKE names %s: if the machine behaves like it, set %s", msg,
			strings.Join(like, " and "), byName.Is(like[0]))
	}
	return surface.Errorf("%s; if the machine behaves like one of them, set %s to that name", msg, byName)
}

// alike lists the known distributions that ID_LIKE names.
func alike(release Release) []string {
	var ids []string
	for _, like := range release.IDLike {
		for _, d := range All() {
			if slices.Contains(d.OSRelease, like) {
				ids = append(ids, d.ID)
			}
		}
	}
	return ids
}
