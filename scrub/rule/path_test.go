//go:build linux

package rule

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGlob(t *testing.T) {
	h := hosttest.Root(t, map[string]string{
		`home/we\ird [x]/.ssh/authorized_keys`: "x", `home/we\ird [x]/.ssh/authorized_keys2`: "x",
		"a/b/c": "x", "a/new\nline/c": "x", "a/\xff/c": "x", "a/file": "x",
		"around": "-> around", "up": "-> ..", "linked": "-> /a/b",
	})
	home := "/" + path.Join("home", QuoteGlob(`we\ird [x]`), ".ssh")
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
		d := Draft{Host: h}
		assert.Equal(t, want, d.Glob(pattern), pattern)
		require.NoError(t, d.Err, pattern)
	}
	d := Draft{Host: h}
	assert.Empty(t, d.Glob("/a/["))
	assert.EqualError(t, d.Err, "looking for /a/[: syntax error in pattern")
}

// FuzzHomes reads any text as passwd(5). Homes are absolute, clean, sorted and
// unique, and patterns made of them match the files inside.
func FuzzHomes(f *testing.F) {
	f.Add("root:x:0:0:root:/root:/bin/bash\nsvc:x:998:998::/opt/svc home:/bin/sh\n")
	f.Add("a:b:c:d:e:/bin:g\nx:::::/../..:\nx:::::/home/[a:\x00")
	f.Add("a:x:0:0::/home/a\\*?b:/bin/sh")
	f.Fuzz(func(t *testing.T, text string) {
		last := ""
		for _, home := range homesOf(text) {
			if !path.IsAbs(home) || path.Clean(home) != home || home <= last {
				t.Fatalf("%q after %q", home, last)
			}
			last = home
			if ok, err := path.Match(QuoteGlob(home), home); !ok || err != nil {
				t.Fatalf("%q: %v", home, err)
			}
			if literal(QuoteGlob(home)+"/x") != path.Clean(home+"/x") && !strings.ContainsAny(home, `*?[\`) {
				t.Fatalf("%q is %q", home, literal(QuoteGlob(home)+"/x"))
			}
		}
	})
}

// FuzzCheckPath checks any path of a rule. No accepted path matches a file that the
// system needs, or a folder above one.
func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{
		"/a/b/../..", "//etc//passwd", "/e*c/pass?d", "/[u]sr/bin/*", "/usr/li?/systemd", "/boot/vmlinuz*", "~/.*", "~//x/",
		"/opt/ours/[a-z]*", `/opt/ours/\\*`, "/*/*/x", "/root/.*", "/opt/ours",
	} {
		f.Add(p)
	}
	single, whole := needed()
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		for _, place := range slices.Concat(single, whole) {
			for ; place != "/"; place = path.Dir(place) {
				matches, err := path.Match(path.Clean(p), place)
				require.NoError(t, err)
				require.False(t, matches, "%s matches %s, which the system needs", p, place)
			}
		}
	})
}
