//go:build linux

package scrub

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
	apply(t, h, Spec{Only: []string{"mine"},
		Own: []Rule{{ID: "mine", Phase: State, Verb: plan.Remove, Paths: []string{"~/kube*"}, Why: "test"}}})
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

func TestHomesWithoutAnAccountAreReported(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "home/admin/": "", "home/ada@corp/": "", "home/lost+found/": "", "home/build/": ""})
	require.NoError(t, os.Chown(filepath.Join(root, "home/ada@corp"), 70000, 70000))
	assert.Equal(t, []string{"/home/ada@corp: home of an account that this machine does not know: move what the image needs, and remove the folder"}, audit(t, h, "homes-left"))
}

const sshKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl person@laptop\n"

// Accounts whose line in passwd(5) has no shell, homes without an account, and
// homes of accounts in other files have keys too.
func TestKeysOfEveryHomeAreRemoved(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd":                                   "root:x:0:0:root:/root:/bin/bash\nshort:x:1001:1001::/data/short\nempty:x:1002:1002::/data/empty:\nbroken:x:1003\n#old:x:1:1::/data/old:/bin/sh\n",
		"usr/lib/passwd":                               "core:x:500:500::/var/home/core:/bin/bash\n",
		"var/lib/extrausers/passwd":                    "snap:x:1004:1004::/data/snap:/bin/bash\n",
		"home/empty/.ssh/authorized_keys":              "# no key\n",
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
		"- /data/empty/.ssh/authorized_keys2", "- /data/short/.ssh/authorized_keys", "- /data/snap/.ssh/authorized_keys",
		"- /home/EXAMPLE.COM/alice/.ssh/authorized_keys2", "- /home/EXAMPLE.COM/bob/.ssh/authorized_keys", "- /home/ldap/.ssh/authorized_keys",
		"- /var/home/core/.ssh/authorized_keys.d", "- /var/home/core/.ssh/authorized_keys.d/x",
	}, diff(before, snapshot(t, root)))
}

// keyTrees are configurations of sshd, and the files with keys that sshd reads.
var keyTrees = map[string]struct {
	config map[string]string
	read   []string
	unread []string
}{
	"the default": {map[string]string{"sshd_config": "Port 22\n"}, nil, []string{"/etc/ssh/keys/admin"}},
	"by name":     {map[string]string{"sshd_config": "AuthorizedKeysFile /etc/ssh/keys/%u\n"}, []string{"/etc/ssh/keys/admin", "/etc/ssh/keys/ldap", "/etc/ssh/keys/root"}, []string{"/etc/ssh/keys2/admin"}},
	"in a folder of each name": {map[string]string{"sshd_config": "authorizedkeysfile=/etc/ssh/keys/%u/keys\n"},
		[]string{"/etc/ssh/keys/admin/keys", "/etc/ssh/keys/ldap/keys"}, []string{"/etc/ssh/keys/admin/other"}},
	"several, with quotes": {map[string]string{"sshd_config": "AuthorizedKeysFile \"/etc/ssh/my keys/%u\" .ssh/authorized_keys %h/.keys  # comment\n"},
		[]string{"/etc/ssh/my keys/admin", "/home/admin/.keys", "/home/ldap/.keys"}, nil},
	"one for all":       {map[string]string{"sshd_config": "AuthorizedKeysFile /etc/ssh/authorized_keys\n"}, []string{"/etc/ssh/authorized_keys"}, nil},
	"by number":         {map[string]string{"sshd_config": "AuthorizedKeysFile /var/lib/keys/%U.pub\n"}, []string{"/var/lib/keys/1000.pub", "/var/lib/keys/0.pub"}, []string{"/var/lib/keys/readme"}},
	"the first counts":  {map[string]string{"sshd_config": "AuthorizedKeysFile /etc/ssh/keys/%u\nAuthorizedKeysFile /etc/ssh/keys2/%u\n"}, []string{"/etc/ssh/keys/admin"}, []string{"/etc/ssh/keys2/admin"}},
	"an included first": {map[string]string{"sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\nAuthorizedKeysFile .ssh/authorized_keys\n", "sshd_config.d/10-b.conf": "AuthorizedKeysFile /etc/ssh/keys2/%u\n", "sshd_config.d/05-a.conf": "AuthorizedKeysFile /etc/ssh/keys/%u\n"}, []string{"/etc/ssh/keys/admin"}, []string{"/etc/ssh/keys2/admin"}},
	"a relative Include": {map[string]string{"sshd_config": "Include sshd_config.d/*.conf more\n", "more": "AuthorizedKeysFile none\n", "sshd_config.d/x.conf": "AuthorizedKeysFile /etc/ssh/keys/%u\n", "sshd_config.d/x.conf.bak": "AuthorizedKeysFile /etc/ssh/keys2/%u\n"},
		[]string{"/etc/ssh/keys/admin"}, []string{"/etc/ssh/keys2/admin"}},
	"Match": {map[string]string{"sshd_config": "AuthorizedKeysFile .ssh/authorized_keys\nMatch User admin\n  AuthorizedKeysFile /etc/ssh/keys/%u\n  AuthorizedKeysFile /etc/ssh/keys2/%u\nMatch Group wheel\n\tAuthorizedKeysFile /etc/ssh/wheel/%u\n"},
		[]string{"/etc/ssh/keys/admin", "/etc/ssh/wheel/admin"}, []string{"/etc/ssh/keys2/admin"}},
	"Match in an included file ends with it": {map[string]string{"sshd_config": "Include sshd_config.d/*.conf\nAuthorizedKeysFile /etc/ssh/keys/%u\n", "sshd_config.d/x.conf": "Match User nobody\nAuthorizedKeysFile /etc/ssh/keys2/%u\n"},
		[]string{"/etc/ssh/keys/admin", "/etc/ssh/keys2/admin"}, nil},
	"Include in Match": {map[string]string{"sshd_config": "Match User admin\nInclude more\nMatch all\nAuthorizedKeysFile none\n", "more": "AuthorizedKeysFile /etc/ssh/keys/%u\n"}, []string{"/etc/ssh/keys/admin"}, nil},
	"none":             {map[string]string{"sshd_config": "AuthorizedKeysFile none\nAuthorizedKeysFile /etc/ssh/keys/%u\n"}, nil, []string{"/etc/ssh/keys/admin"}},
	"a percent sign":   {map[string]string{"sshd_config": "AuthorizedKeysFile /etc/ssh/%%/%u\n"}, []string{"/etc/ssh/%/admin"}, nil},
	"beside sshd's own files": {map[string]string{"sshd_config": "AuthorizedKeysFile /etc/ssh/%u\n"}, []string{"/etc/ssh/admin"},
		[]string{"/etc/ssh/ssh_host_ed25519_key.pub", "/etc/ssh/ssh_known_hosts"}},
}

func TestKeysOfAuthorizedKeysFileAreRemoved(t *testing.T) {
	for name, c := range keyTrees {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd, "home/admin/": "", "home/ldap/": "", "etc/ssh/keys/README": "no key\n"}
			if slices.ContainsFunc(c.read, func(n string) bool { return strings.HasPrefix(n, "/etc/ssh/keys/admin/") }) {
				delete(files, "etc/ssh/keys/README")
			}
			for n, text := range c.config {
				files["etc/ssh/"+n] = text
			}
			for _, n := range slices.Concat(c.read, c.unread) {
				files[n[1:]] = "# comment\n" + sshKey
			}
			h, root := tree(t, files)
			before := snapshot(t, root)
			assert.Len(t, audit(t, h, "authorized-keys-elsewhere"), len(c.read))
			apply(t, h, Spec{Only: []string{"authorized-keys-elsewhere"}})
			want := show.Each(slices.Sorted(slices.Values(c.read)), func(n string) string { return "- " + n })
			assert.Equal(t, want, diff(before, snapshot(t, root)))
			assert.Empty(t, audit(t, h, "authorized-keys-elsewhere"))
		})
	}
}

// SUSE's own configuration counts while /etc has none.
func TestSUSEsConfigurationOfSSHDIsRead(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd, "usr/etc/ssh/sshd_config": "Include /etc/ssh/sshd_config.d/*.conf\nAuthorizedKeysFile /etc/ssh/keys/%u\n", "etc/ssh/keys/admin": sshKey}
	h, _ := tree(t, files)
	assert.Len(t, audit(t, h, "authorized-keys-elsewhere"), 1)
	files["etc/ssh/sshd_config"] = "\n"
	h, _ = tree(t, files)
	assert.Empty(t, audit(t, h, "authorized-keys-elsewhere"))
}

func TestCommandsThatPrintKeysAreReported(t *testing.T) {
	for command, found := range map[string]bool{
		"/usr/local/bin/keys %u": true, "none": false, "/opt/aws/bin/eic_run_authorized_keys %u %f": false, "/usr/bin/userdbctl ssh-authorized-keys %u": false,
		"/usr/bin/sss_ssh_authorizedkeys": false, "\"/opt/my keys\"": true,
	} {
		t.Run(command, func(t *testing.T) {
			h, _ := tree(t, map[string]string{"etc/passwd": passwd, "etc/ssh/sshd_config": "Port 22\nAuthorizedKeysCommand " + command + "\n"})
			var want []string
			if found {
				want = []string{fmt.Sprintf("/etc/ssh/sshd_config: line 2: sshd accepts the keys that %s prints: check that nobody of the build can log in with them, or skip the rule", sshdWords("x " + command)[1])}
			}
			assert.Equal(t, want, audit(t, h, "authorized-keys-elsewhere"))
		})
	}
}

// FuzzSSHDConfig reads any text as sshd's configuration. Each setting has a
// keyword in lower case, and includes of the file by itself end with an error.
func FuzzSSHDConfig(f *testing.F) {
	for _, c := range keyTrees {
		f.Add(c.config["sshd_config"])
	}
	f.Add("Include sshd_config\n")
	f.Add("AuthorizedKeysFile \"a\\\" b' c\n=\n\"x\" y")
	f.Fuzz(func(t *testing.T, text string) {
		h, _ := tree(t, map[string]string{"etc/ssh/sshd_config": text})
		for _, s := range readSSHD(&draft{h: h}).settings {
			require.Equal(t, strings.ToLower(s.keyword), s.keyword)
			require.NotEmpty(t, s.keyword)
			require.Positive(t, s.line)
		}
	})
}
