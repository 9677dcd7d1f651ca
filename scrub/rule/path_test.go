//go:build linux

package rule

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
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

func TestPathsThatRulesMayName(t *testing.T) {
	whole := func(folder string) string {
		return "matches too much: the system needs everything below " + folder + "; leave the path out"
	}
	noEnd, high, needed := "has a wildcard without an end; see path.Match", ErrTooHigh.Error(), errNeeded.Error()
	excludes := `has "[!": path.Match takes "!" for one of the characters; write "[^" to exclude characters`
	for p, want := range map[string]string{
		"ours/x": `must be absolute or start with "~/"`, "~ours/x": `must be absolute or start with "~/"`,
		"/opt/ours\x00": "must not contain a zero byte", "/opt/ours/[!a]*": excludes, "/opt/ours/[": noEnd, "~/[": noEnd,
		"/opt/./x": `must not contain "." or ".."`, "/opt/../x": `must not contain "." or ".."`,
		"/opt/**/x": `must not contain "**": a wildcard matches within one name`,
		"/":         high, "/*/*": high, "/opt": high, "/opt/*": high, "/opt/*/[a-z]*": high, "/*/ours": high,
		"/opt/ours": "", "/opt/ours/*": "", `/opt/ours/\[!a]`: "", "/opt/*/ours": "",
		"/*/ours/x": whole("/boot"), "/[^bdeps]*/ours/x": "", "/opt/ours/[a-z]": "",
		"/root/*": high, "/root/.*": high, "/r*t/.*/*": high, "/root/.ssh": "", "/root/.s*": "",
		"/home/ec2-user": high, "/home/*/.*": high, "/home/*/.cache": "", "/home/ec2-user/.*/x": "",
		"~/.*": high, "~/*": high, "~/": high, "~/.cache/*": "", "~/x": "",
		"/etc/pass?d": needed, "/etc/ssh/[a-z]*": needed, "/e*/systemd": needed, "/etc/ssh/ours": "",
		"/opt/cni/bin/bridge": needed, "/opt/cni/bin/ours": "", "/sbin/init": needed, "/bin/ours": "",
		"/usr/lib/systemd": needed, "/usr/lib/systemd/x": whole("/usr/lib/systemd"),
		"/lib/systemd/x/y": whole("/lib/systemd"),
		"/[b]oot/vmlinuz*": whole("/boot"), "/var/lib/containerd/x": whole("/var/lib/containerd"), "/var/lib/containers": "",
	} {
		err := CheckPath(p)
		if want == "" {
			assert.NoError(t, err, p)
		} else {
			assert.EqualError(t, err, want, p)
		}
	}
}

func TestHomesOf(t *testing.T) {
	assert.Equal(t, []string{"/opt/svc home", "/root", "/srv/no-shell"}, homesOf("svc:x:998:998::/opt/svc home/:/bin/sh\n"+
		"no-shell:x:1:1::/srv/no-shell\nno-home:x:1:1:/srv/text\nrelative:x:1:1::srv:/bin/sh\nroot:x:0:0::/root:/bin/sh\n"))
	assert.Equal(t, `a*b\`, unquoteGlob(`a\*b\\`))
	assert.Equal(t, `ends with \`, unquoteGlob(`ends with \`))
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
