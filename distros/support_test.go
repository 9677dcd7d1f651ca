package distros

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func day(t *testing.T, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.RFC3339, text)
	require.NoError(t, err)
	return d
}

func TestAnEndIsAWarning90DaysBefore(t *testing.T) {
	end := End{"support of Fedora 43", "2026-12-09", "https://example.org/"}
	const (
		ends  = "support of Fedora 43 ends on 2026-12-09; choose a base image with a newer release (https://example.org/)"
		ended = "support of Fedora 43 ended on 2026-12-09; choose a base image with a newer release (https://example.org/)"
	)
	for now, want := range map[string]string{
		"2025-11-01T00:00:00Z":      "",
		"2026-09-09T23:59:59Z":      "", // 91 days
		"2026-09-10T00:00:00Z":      ends,
		"2026-12-09T23:59:59Z":      ends, // the last day
		"2026-12-10T00:00:00Z":      ended,
		"2026-12-10T00:30:00+01:00": ends, // still the 9th in UTC
		"2031-01-01T00:00:00Z":      ended,
	} {
		got, err := end.Warning(day(t, now), "choose a base image with a newer release")
		require.NoError(t, err)
		assert.Equal(t, want, got, now)
	}
	_, err := End{Of: "support of X", Day: "June 2026"}.Warning(day(t, "2026-01-01T00:00:00Z"), "")
	require.ErrorContains(t, err, `reading the end of support of X: parsing time "June 2026"`)
}

// The ends that users ask about.
func TestKnownEnds(t *testing.T) {
	for _, want := range []struct{ id, version, of, day string }{
		{"amazonlinux2", "2", "support of Amazon Linux 2", "2026-06-30"},
		{"amazonlinux2", "2", "publication of AWS's EKS images of Amazon Linux 2", "2025-11-26"},
		{"opensuse-leap-15", "15.6", "support of openSUSE Leap 15.6", "2026-04-30"},
		{"debian", "12", "regular security support of Debian 12", "2026-07-11"},
		{"ubuntu", "22.04", "standard support of Ubuntu 22.04", "2027-04-01"},
		{"fedora", "43", "support of Fedora 43", "2026-12-09"},
		{"sles", "15.6", "general support of SUSE Linux Enterprise Server 15 SP6", "2025-12-31"},
		{"sles", "15.7", "general support of SUSE Linux Enterprise Server 15", "2031-07-31"},
		{"rocky", "9.6", "support of Rocky Linux 9", "2032-05-31"},
	} {
		d, err := ByID(want.id)
		require.NoError(t, err)
		found := false
		for _, e := range d.of(want.version).Release.Ends {
			found = found || e.Of == want.of && e.Day == want.day
		}
		assert.True(t, found, "%+v", want)
	}
}

// A release has ended when the last of its supports has.
func TestEnded(t *testing.T) {
	for _, test := range []struct {
		id, version, now string
		ended            bool
	}{
		{"amazonlinux2", "2", "2026-06-30T23:59:59Z", false},
		{"amazonlinux2", "2", "2026-07-01T00:00:00Z", true},
		{"opensuse-leap-15", "15.6", "2026-11-24T12:00:00Z", true},
		{"debian", "12", "2026-11-24T12:00:00Z", false}, // long-term support
		{"sles", "15.6", "2026-11-24T12:00:00Z", false},
		{"arch", "", "2040-01-01T00:00:00Z", false},
	} {
		d, err := ByID(test.id)
		require.NoError(t, err)
		assert.Equal(t, test.ended, d.of(test.version).Release.Ended(day(t, test.now)), "%+v", test)
	}
}

// An unlisted version, which only the option distro selects, has the containerd
// of the newest release and no ends.
func TestFactsOfAnUnlistedVersion(t *testing.T) {
	assert.Equal(t, ReleaseFacts{Containerd: "1.7"}, debian().of("2024.1").Release)
	assert.Equal(t, ReleaseFacts{Containerd: "2"}, flatcar().of("4593.2.1").Release)
	assert.Equal(t, ReleaseFacts{Containerd: "2"}, arch().of("").Release)
	assert.Empty(t, debian().Release, "of must not change the table")
}

// Releases without a fixture; provisioner's TestContainerd2 has the others.
func TestWithContainerd(t *testing.T) {
	for _, test := range []struct {
		d        Distro
		upstream bool
	}{{debian().of("2024.1"), true}, {sles().of("15.7"), true}, {flatcar().of("4593.2.1"), false}} {
		got := test.d.WithContainerd(2)
		assert.Equal(t, test.upstream, got.FromUpstream(), test.d.ID)
		assert.False(t, got.HasOldContainerd(2), test.d.ID)
		assert.Equal(t, !test.upstream, slices.Equal(test.d.AllPackages(), got.AllPackages()), test.d.ID)
		assert.Empty(t, test.d.Upstream, "the distribution itself must not change")
	}
}

// WithContainerd replaces all packages of the container runtime.
func TestContainerRuntimesAreContainerdAndRunc(t *testing.T) {
	for _, d := range All() {
		if own := d.Packages[ContainerRuntime]; len(own) > 0 {
			assert.Equal(t, []string{"containerd", "runc"}, own, d.ID)
		}
	}
}
