package distros

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// fixtures returns the names of a distribution's os-release files by version:
// ID.os-release for the first version, ID-VERSION.os-release for the others.
func fixtures(d Distro) map[string]string {
	all := map[string]string{"": d.ID}
	for i, version := range d.Versions {
		delete(all, "")
		all[version] = d.ID
		if i > 0 {
			all[version] += "-" + version
		}
	}
	return all
}

func TestEveryDistroIsDetectedByItsFixtures(t *testing.T) {
	known := 0
	for _, d := range All() {
		for version, name := range fixtures(d) {
			known++
			t.Run(name, func(t *testing.T) {
				text := testkit.Content(t, filepath.Join("testdata", name+".os-release"))
				got, release, err := Detect(hosttest.Root(t, map[string]string{"etc/os-release": text}), "")
				require.NoError(t, err)
				assert.Equal(t, d.ID, got.ID)
				assert.Contains(t, d.OSRelease, release.ID)
				if version != "" {
					assert.True(t, Distro{Versions: []string{version}}.covers(release.VersionID), "%s is not %s", release.VersionID, version)
				}
			})
		}
	}
	assert.Len(t, testkit.Glob(t, "testdata/*.os-release"), known, "every fixture must belong to a distribution")
}

const alpineRefused = "Alpine Linux cannot be provisioned: Alpine starts with OpenRC, and the kubelet needs systemd and its cgroups; " +
	"choose one of the supported distributions; containers on the node can still use Alpine"

func TestDetectRefusesUnsupportedMachines(t *testing.T) {
	list := strings.Join(IDs(), ", ")
	filled := strings.NewReplacer("{{list}}", list, "{{alpine}}", alpineRefused)
	var tests map[string]struct{ Release, Err string }
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/refused.yaml")), &tests))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := Detect(hosttest.Root(t, map[string]string{"etc/os-release": test.Release}), "")
			require.EqualError(t, err, filled.Replace(test.Err))
		})
	}
	t.Run("no file at all", func(t *testing.T) {
		_, _, err := Detect(hosttest.Root(t, nil), "")
		require.EqualError(t, err, `reading os-release: the machine has neither /etc/os-release nor /usr/lib/os-release; name the distribution with distro = "…", one of `+list)
	})
}

func TestDistroOverridesDetection(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a derivative":         {"etc/os-release": "ID=derivative\nID_LIKE=debian\nVERSION_ID=2024.1\n"},
		"another version":      {"etc/os-release": "ID=debian\nVERSION_ID=11\n"},
		"a broken file":        {"etc/os-release": "ID=\"x\n"},
		"no file":              nil,
		"another distribution": {"etc/os-release": "ID=arch\n"},
	} {
		t.Run(name, func(t *testing.T) {
			d, _, err := Detect(hosttest.Root(t, files), "debian")
			require.NoError(t, err)
			assert.Equal(t, "debian", d.ID)
		})
	}
	_, _, err := Detect(hosttest.Root(t, nil), "debain")
	require.EqualError(t, err, `distro "debain" is not known; known are `+strings.Join(IDs(), ", ")+"; did you mean debian?")
	_, _, err = Detect(hosttest.Root(t, nil), "windows")
	require.ErrorContains(t, err, `distro "windows": Windows Server cannot be provisioned: eksnode's agent is a Linux program`)
	_, _, err = Detect(hosttest.Root(t, nil), "alpine")
	require.EqualError(t, err, `distro "alpine": `+alpineRefused)
}

func TestVersionsCoverTheirMinorReleases(t *testing.T) {
	d := Distro{Versions: []string{"9", "10.1"}}
	for version, want := range map[string]bool{"9": true, "9.4": true, "10.1": true, "10": false, "10.2": false, "90": false, "": false} {
		assert.Equal(t, want, d.covers(version), "VERSION_ID %q", version)
	}
	assert.True(t, Distro{}.covers(""), "a rolling distribution has no versions")
}

// ID_LIKE is never followed, because derivatives often have another network stack
// than the distribution that they name.
func TestIDLikeDoesNotSelectADistribution(t *testing.T) {
	for _, d := range All() {
		for _, name := range fixtures(d) {
			text := testkit.Content(t, filepath.Join("testdata", name+".os-release"))
			release, err := ParseRelease(text)
			require.NoError(t, err)
			release.ID = "derivative"
			_, err = match(release)
			require.ErrorContains(t, err, "is not known; known are ", name)
		}
	}
}

// Of a distribution with releases, no other release is supported.
func TestReleasesThatAreNotSupported(t *testing.T) {
	for _, release := range []string{"ID=opensuse-leap\nVERSION_ID=15.5\n", "ID=ubuntu\nVERSION_ID=24.10\n",
		"ID=rhel\nVERSION_ID=8.10\n", "ID=fedora\nVERSION_ID=30\n"} {
		_, _, err := Detect(hosttest.Root(t, map[string]string{"etc/os-release": release}), "")
		require.ErrorContains(t, err, "is not supported; supported are the versions ", release)
	}
}
