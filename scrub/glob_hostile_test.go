//go:build linux

package scrub

import (
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGlob(t *testing.T) {
	h, _ := surrounded(t, map[string]string{
		`home/we\ird [x]/.ssh/authorized_keys`: "x", `home/we\ird [x]/.ssh/authorized_keys2`: "x",
		"a/b/c": "x", "a/new\nline/c": "x", "a/\xff/c": "x", "a/file": "x",
		"around": "-> around", "up": "-> ..", "linked": "-> /a/b",
	})
	home := "/" + path.Join("home", quoteGlob(`we\ird [x]`), ".ssh")
	for pattern, want := range map[string][]string{
		home + "/authorized_keys*": {`/home/we\ird [x]/.ssh/authorized_keys`, `/home/we\ird [x]/.ssh/authorized_keys2`},
		home + "/authorized_keys":  {`/home/we\ird [x]/.ssh/authorized_keys`},
		"/a/*/c":                   {"/a/b/c", "/a/new\nline/c", "/a/\xff/c"},
		"/a/b/missing":             nil,
		"/a/file/*":                nil,
		"/a/file/x":                nil,
		"/around":                  {"/around"},
		"/around/*":                nil,
		"/around/x":                nil,
		"/linked/*":                {"/linked/c"},
		"/up/a/file":               {"/up/a/file"}, // ".." at the root stays there
		"/*/b":                     {"/a/b"},
	} {
		got, err := glob(h, pattern)
		require.NoError(t, err, pattern)
		assert.Equal(t, want, got, pattern)
	}
	_, err := glob(h, "/a/[")
	assert.EqualError(t, err, "looking for /a/[: syntax error in pattern")
}
