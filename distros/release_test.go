package distros

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestParseReleaseFollowsOSRelease(t *testing.T) {
	tests := map[string]struct {
		text string
		want Release
		err  string
	}{
		"bare, single, double": {
			text: "ID=debian\nVERSION_ID='12'\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n",
			want: Release{ID: "debian", VersionID: "12", PrettyName: "Debian GNU/Linux 12"},
		},
		"comments, blank lines, no newline at the end": {
			text: "# a comment\n\n  \nID=arch\nBUILD_ID=rolling",
			want: Release{ID: "arch", BuildID: "rolling"},
		},
		"line ends of DOS": {text: "ID=debian\r\nVERSION_ID=\"12\"\r\n", want: Release{ID: "debian", VersionID: "12"}},
		"several ID_LIKE":  {text: "ID=rocky\nID_LIKE=\"rhel centos fedora\"\n", want: Release{ID: "rocky", IDLike: []string{"rhel", "centos", "fedora"}}},
		"escapes in double quotes": {
			text: `ID=x` + "\n" + `PRETTY_NAME="a \"b\" \\ \$c \d"` + "\n",
			want: Release{ID: "x", PrettyName: `a "b" \ $c \d`},
		},
		"nothing is expanded":          {text: "ID=x\nPRETTY_NAME=\"$HOME `id`\"\n", want: Release{ID: "x", PrettyName: "$HOME `id`"}},
		"empty values":                 {text: "ID=x\nVERSION_ID=\nPRETTY_NAME=\"\"\n", want: Release{ID: "x"}},
		"a field twice: the last wins": {text: "ID=x\nID=y\n", want: Release{ID: "y"}},
		"no ID means linux":            {text: "NAME=Something\n", want: Release{ID: "linux"}},
		"other fields are not read":    {text: "ID=x\nANSI_COLOR=0;36\nNAME=\"open\n", want: Release{ID: "x"}},
		"an open double quote":         {text: "ID=\"debian\n", err: "line 1: the value of ID has a quote without an end"},
		"an escaped closing quote":     {text: `ID="debian\"`, err: "line 1: the value of ID has a quote without an end"},
		"an open single quote":         {text: "ID=debian\nVERSION_ID='12\n", err: "line 2: the value of VERSION_ID has a quote without an end"},
		"text after a quote":           {text: "ID=\"debian\"12\n", err: "line 1: the value of ID continues after its closing quote"},
		"text after a single quote":    {text: "ID='debian'12\n", err: "line 1: the value of ID continues after its closing quote"},
		"a blank in a bare value":      {text: "ID=my linux\n", err: "line 1: the value of ID needs quotes"},
		"a command in a bare value":    {text: "ID=$(id)\n", err: "line 1: the value of ID needs quotes"},
		"a line without a value":       {text: "ID=x\nDebian\n", err: "line 2 is not NAME=VALUE"},
		"HTML instead of os-release":   {text: "<html>\n", err: "line 1 is not NAME=VALUE"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRelease(test.text)
			if test.err != "" {
				require.EqualError(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
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
