package distros

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

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

// Distributions that share an ID are distinguished by VERSION_ID.
func TestVersionsDistinguishSharedIDs(t *testing.T) {
	for release, want := range map[string]string{
		"ID=amzn\nVERSION_ID=2\n":              "amazonlinux2",
		"ID=amzn\nVERSION_ID=2023\n":           "amazonlinux2023",
		"ID=opensuse-leap\nVERSION_ID=15.6\n":  "opensuse-leap-15",
		"ID=opensuse-leap\nVERSION_ID=16.0\n":  "opensuse-leap-16",
		"ID=rhel\nVERSION_ID=9.6\n":            "rhel",
		"ID=sles\nVERSION_ID=15.7\n":           "sles",
		"ID=flatcar\nVERSION_ID=4593.2.1\n":    "flatcar",
		"ID=arch\nBUILD_ID=rolling\n":          "arch",
		"ID=almalinux\nVERSION_ID=\"10.1\"\n":  "almalinux",
		"ID=ubuntu\nVERSION_ID=\"24.04\"\n":    "ubuntu",
		"ID=debian\nVERSION_ID='13'\n":         "debian",
		"ID=fedora\nVERSION_ID=44\nNAME=x y\n": "fedora",
	} {
		d, _, err := Detect(hosttest.Root(t, map[string]string{"etc/os-release": release}), "")
		require.NoError(t, err, release)
		assert.Equal(t, want, d.ID)
	}
	for _, release := range []string{"ID=opensuse-leap\nVERSION_ID=15.5\n", "ID=ubuntu\nVERSION_ID=24.10\n", "ID=rhel\nVERSION_ID=8.10\n", "ID=fedora\nVERSION_ID=30\n"} {
		_, _, err := Detect(hosttest.Root(t, map[string]string{"etc/os-release": release}), "")
		require.ErrorContains(t, err, "is not supported; supported are the versions ", release)
	}
}
