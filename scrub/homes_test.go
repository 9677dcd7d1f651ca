//go:build linux

package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
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
	homes, _, err := rule.Homes(h)
	require.NoError(t, err)
	assert.Equal(t, []string{"/data/u", "/home/admin", "/home/moved", "/opt/svc home", "/root", "/srv/x", "/var/lib/postgresql"}, homes)
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"mine"},
		Own: []Rule{{ID: "mine", Phase: State, Verb: plan.Remove, Paths: []string{"~/kube*"}, Why: "test"}}})
	assert.Equal(t, []string{
		"- /data/moved/kube", "- /data/u/kube", "- /home/admin/kube", "- /opt/svc home/kubes", "- /srv/x/kube", "- /var/lib/postgresql/kube",
	}, diff(before, snapshot(t, root)))
}

func TestHomesWithoutAnAccountAreReported(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "home/admin/x/.git": "", "home/ada@corp/x/.git": "",
		"home/lost+found/": "", "home/build/": "", "home/CORP/bob/.bashrc": "", "home/CORP/bob/.profile": ""})
	require.NoError(t, os.Chown(filepath.Join(root, "home/ada@corp"), 70000, 70000))
	const unknown = ": home of an account that this machine does not know: move what the image needs, and remove the " +
		"folder"
	assert.Equal(t, []string{"/home/ada@corp" + unknown, "/home/CORP/bob" + unknown}, audit(t, h, "homes-left"))
}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl person@laptop\n"

// Accounts whose line in passwd(5) has no shell, homes without an account, and
// homes of accounts in other files have keys too.
func TestKeysOfEveryHomeAreRemoved(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\nshort:x:1001:1001::/data/short\n" +
			"empty:x:1002:1002::/data/empty:\nbroken:x:1003\n#old:x:1:1::/data/old:/bin/sh\n" +
			"srv:x:990:990::/srv:/bin/bash\ntop:x:991:991::/:\nlocal:x:1005:1005::/usr/local/x\n" +
			"link:x:1006:1006::/home/tobin\nsame:x:1007:1007::/usr/bin\n",
		"usr/lib/passwd":                               "core:x:500:500::/var/home/core:/bin/bash\n",
		"var/lib/extrausers/passwd":                    "snap:x:1004:1004::/data/snap:/bin/bash\n",
		"home/empty/.ssh/authorized_keys":              "# no key\n",
		"srv/.ssh/authorized_keys":                     sshKey,
		"srv/.bash_history":                            "x",
		".ssh/authorized_keys":                         sshKey,
		"usr/local/x/.ssh/authorized_keys":             sshKey,
		"home/tobin":                                   "-> ../usr/bin",
		"usr/bin/.ssh/authorized_keys":                 sshKey,
		"data/short/.ssh/authorized_keys":              sshKey,
		"data/empty/.ssh/authorized_keys2":             sshKey,
		"var/home/core/.ssh/authorized_keys.d/x":       sshKey,
		"data/snap/.ssh/authorized_keys":               sshKey,
		"home/ldap/.ssh/authorized_keys":               sshKey,
		"home/EXAMPLE.COM/alice/.ssh/authorized_keys2": sshKey,
		"home/EXAMPLE.COM/bob/.ssh/authorized_keys":    sshKey,
		"home/lost+found/.ssh/authorized_keys":         sshKey,
		"home/ldap/project/.ssh/kept":                  "x",
		"data/other/.ssh/authorized_keys":              "no home",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"people"}})
	assert.Equal(t, []string{
		"- /.ssh/authorized_keys",
		"- /data/empty/.ssh/authorized_keys2", "- /data/short/.ssh/authorized_keys", "- /data/snap/.ssh/authorized_keys",
		"- /home/EXAMPLE.COM/alice/.ssh/authorized_keys2", "- /home/EXAMPLE.COM/bob/.ssh/authorized_keys", "- /home/ldap/.ssh/authorized_keys",
		"- /srv/.bash_history", "- /srv/.ssh/authorized_keys", "- /usr/bin/.ssh/authorized_keys",
		"- /usr/local/x/.ssh/authorized_keys",
		"- /var/home/core/.ssh/authorized_keys.d", "- /var/home/core/.ssh/authorized_keys.d/x",
	}, diff(before, snapshot(t, root)))
}
