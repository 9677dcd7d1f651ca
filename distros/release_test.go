package distros

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestParseReleaseFollowsOSRelease(t *testing.T) {
	var tests map[string]struct {
		Text, Err string
		Want      Release
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/releases.yaml")), &tests))
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRelease(test.Text)
			if test.Err != "" {
				require.EqualError(t, err, test.Err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.Want, got)
		})
	}
}

func FuzzParseRelease(f *testing.F) {
	for _, d := range All() {
		text, err := os.ReadFile(filepath.Join("testdata", d.ID+".os-release"))
		require.NoError(f, err)
		f.Add(string(text))
	}
	f.Add("ID=\"a\\")
	f.Add("ID='\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRelease(text)
		if err != nil {
			assert.Equal(t, Release{}, r, "an error must come with an empty Release")
		}
		assert.NotContains(t, r.ID+r.VersionID+r.PrettyName, "\n", "a value must not contain a newline")
	})
}

func TestReadReleasePrefersEtc(t *testing.T) {
	r, err := ReadRelease(hosttest.Root(t, map[string]string{"usr/lib/os-release": "ID=vendor\n"}))
	require.NoError(t, err)
	assert.Equal(t, "vendor", r.ID)

	r, err = ReadRelease(hosttest.Root(t, map[string]string{"usr/lib/os-release": "ID=vendor\n", "etc/os-release": "ID=admin\n"}))
	require.NoError(t, err)
	assert.Equal(t, "admin", r.ID)

	_, err = ReadRelease(hosttest.Root(t, nil))
	require.EqualError(t, err, "reading os-release: the machine has neither /etc/os-release nor /usr/lib/os-release")

	_, err = ReadRelease(hosttest.Root(t, map[string]string{"etc/os-release": "ID=\"x\n"}))
	require.EqualError(t, err, "reading /etc/os-release: line 1: the value of ID has a quote without an end")
}

func TestReadReleaseStaysInsideTheImageRoot(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "os-release")
	require.NoError(t, os.WriteFile(outside, []byte("ID=outside\n"), 0o644))
	h := hosttest.Root(t, map[string]string{"etc/os-release": "-> " + outside})
	_, err := ReadRelease(h)
	require.ErrorIs(t, err, errNoRelease)
}
