//go:build linux

package scrub

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A home that is a system folder, or a link into one, is not searched. Otherwise
// an own rule for "~/kube*" would remove the kubelet.
func TestHomesInSystemFoldersAreIgnored(t *testing.T) {
	lines := []string{"root:x:0:0::/root:/bin/sh", "relative:x:1:1::home:/bin/sh", "short:x:1:1", "+::::::", ""}
	for n, home := range []string{
		"/", "//", "/bin", "/bin/", "/usr/sbin", "/usr//bin/../bin", "/dev", "/proc", "/sys", "/run/x", "/boot", "/etc", "/etc/x", "/usr", "/usr/games", "/usr/local/bin",
		"/lib", "/lib64", "/sbin", "/var", "/var/lib", "/var/lib/dpkg", "/var/lib/kubelet", "/var/lib/containerd/x", "/var/log", "/var/spool/mail", "/tmp", "/opt", "/home",
		"/home/toroot", "/home/tobin", "/home/around", "/home/up", "/home/file", "/home/gone", "/home/dangling",
		"/home/moved", "/home/admin", "/opt/svc home", "/var/lib/postgresql", "/srv/x", "/data/u",
	} {
		lines = append(lines, strings.Join([]string{"u", "x", string(rune('0' + n%10)), "1", "", home, "/bin/sh"}, ":"))
	}
	files := map[string]string{
		"etc/passwd": strings.Join(lines, "\n"), "root/": "", "usr/bin/kubelet": "program", "usr/sbin/kube-x": "program", "bin": "-> usr/bin", "sbin": "-> usr/sbin",
		"usr/local/bin/kubectl": "program", "opt/kubelet": "x", "var/lib/kubelet/kubeconfig": "x", "var/lib/dpkg/kube.list": "x", "tmp/kube": "x", "dev/kube": "x", "etc/kubernetes/x": "x",
		"run/x/kube": "x", "var/log/kube.log": "x", "boot/kube": "x", "home/kube/x": "x", "kube": "x", "usr/games/kube": "x", "var/spool/mail/kube": "x", "lib/": "", "lib64/": "",
		"home/toroot": "-> /", "home/tobin": "-> ../usr/bin", "home/around": "-> /home/around", "home/up": "-> ..", "home/file": "x", "home/dangling": "-> /gone",
		"home/moved": "-> /data/moved", "data/moved/kube": "theirs", "home/admin/kube": "theirs", "opt/svc home/kubes": "theirs", "var/lib/postgresql/kube": "theirs", "srv/x/kube": "theirs", "data/u/kube": "theirs",
	}
	h, root := surrounded(t, files)
	homes, err := Homes(h)
	require.NoError(t, err)
	assert.Equal(t, []string{"/data/u", "/home/admin", "/home/moved", "/opt/svc home", "/root", "/srv/x", "/var/lib/postgresql"}, homes)
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"mine"}, Own: []OwnRule{{ID: "mine", Phase: State, Action: plan.Remove, Paths: []string{"~/kube*"}, Why: "test"}}})
	assert.Equal(t, []string{
		"- /data/moved/kube", "- /data/u/kube", "- /home/admin/kube", "- /opt/svc home/kubes", "- /srv/x/kube", "- /var/lib/postgresql/kube",
	}, diff(before, snapshot(t, root)))
}

// FuzzHomes reads any text as passwd(5). Homes are absolute, clean, sorted and
// unique, and patterns made of them match the files inside.
func FuzzHomes(f *testing.F) {
	f.Add(passwd)
	f.Add("a:b:c:d:e:/bin:g\nx:::::/../..:\nx:::::/home/[a:\x00")
	f.Add("a:x:0:0::/home/a\\*?b:/bin/sh")
	f.Fuzz(func(t *testing.T, text string) {
		last := ""
		for _, home := range homesOf(text) {
			if !path.IsAbs(home) || path.Clean(home) != home || home <= last {
				t.Fatalf("%q after %q", home, last)
			}
			last = home
			if ok, err := path.Match(quoteGlob(home), home); !ok || err != nil {
				t.Fatalf("%q: %v", home, err)
			}
			if literal(quoteGlob(home)+"/x") != path.Clean(home+"/x") && !strings.ContainsAny(home, `*?[\`) {
				t.Fatalf("%q is %q", home, literal(quoteGlob(home)+"/x"))
			}
		}
	})
}

func TestConfigurationsThatNameAPersonGo(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd":                        passwd,
		"root/.gitconfig":                   "[user]\n\tname = Ada\n\temail = ada@corp\n",
		"home/admin/.config/git/config":     "[user]\n\temail=ada@corp\n",
		"home/admin/.gitconfig":             "[safe]\n\tdirectory = *\n[init]\n\tdefaultBranch = main\n",
		"opt/svc home/.makepkg.conf":        "PACKAGER=\"Ada <ada@corp>\"\n",
		"opt/svc home/.hgrc":                "[ui]\nusername = Ada\n",
		"etc/security/opasswd":              "ada:1000:1:$6$x\n",
		"home/admin/.config/git/attributes": "*.x diff\n",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"names-in-configs", "old-passwords"}})
	assert.Equal(t, []string{
		"- /home/admin/.config/git/config", "- /opt/svc home/.hgrc", "- /opt/svc home/.makepkg.conf", "- /root/.gitconfig", "~ /etc/security/opasswd",
	}, diff(before, snapshot(t, root)))
}

func TestHomesWithoutAnAccountAreReported(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "home/admin/": "", "home/ada@corp/": "", "home/lost+found/": "", "home/build/": ""})
	require.NoError(t, os.Chown(filepath.Join(root, "home/ada@corp"), 70000, 70000))
	assert.Equal(t, []string{"/home/ada@corp: home of an account that this machine does not know: move what the image needs, and remove the folder"}, audit(t, h, "homes-left"))
}
