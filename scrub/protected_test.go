package scrub

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// withPath returns a rule that removes one path.
func withPath(name string) OwnRule {
	return OwnRule{ID: "x", Phase: State, Action: plan.Remove, Why: "y", Paths: []string{name}}
}

// Files that the machine needs to boot, package databases and a node's own files
// are refused in every spelling: the file, a parent folder, wildcards, the old
// name of a merged folder, repeated slashes.
func TestRulesForNeededFilesAreRefused(t *testing.T) {
	for _, name := range []string{
		"//etc//passwd", "/etc//passwd/", "/etc/passwd", "/etc/pass*", "/e*c/passwd", "/?tc/shado?", "/etc/[p]asswd", `/etc/pass\wd`,
		"/usr//bin", "/usr/bin/", "/[u]sr/bin/*", "/usr/bin/*", "/usr/bin/?*", "/bin/*", "//bin//bash", "/sbin/init", "/usr/sbin/*", "/u*/s*n",
		"/usr/lib/systemd", "/usr/lib/systemd/systemd", "/usr/li?/systemd", "/usr/lib/systemd/*", "/lib/systemd", "/lib/systemd/system/*", "/usr/lib/systemd/system",
		"/lib/modules/*", "/usr/lib/modules", "/lib/x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2", "/lib/aarch64-linux-gnu/libc.so.6",
		"/usr/local/bin", "/usr/local/bin/*", "/usr/local/bin/kubelet", "/usr/local/bin/k*", "/usr/local/*", "/usr/local", "/usr/local/sbin",
		"/usr/bin/containerd", "/usr/bin/nodeadm", "/opt/bin/kubelet", "/usr/bin/runc",
		"/opt/cni", "/opt/cni/*", "/opt/cni/bin", "/opt/cni/bin/", "/opt/cni/bin/*", "/opt/cni/bin/loopback", "/opt/*/bin/bridge",
		"/etc/sudoers", "/etc/sudoers*", "/etc/sudoers.d", "/etc/sudoers.d/*", "/etc/fstab", "/etc/group", "/etc/gshadow", "/etc/pam.d", "/etc/pam.d/common-auth",
		"/etc/ld.so.cache", "/etc/machine-id", "/etc/os-release", "/etc/systemd/system/*", "/etc/nsswitch.conf",
		"/var/lib/dpkg/status", "/var/lib/dpkg/s*", "/var/lib/dpkg", "/var/lib/dpkg/info/*.list", "/var/*/dpkg/info", "/var/lib/rpm/Packages", "/var/lib/rpm",
		"/usr/lib/sysimage/rpm/rpmdb.sqlite", "/usr/lib/sysimage", "/var/lib/pacman/local/bash-5.2-1", "/var/lib/pacman", "/var/lib/*",
		"/boot/vmlinuz*", "/boot/*", "/boot/grub/grub.cfg", "/boot/efi/EFI", "/efi/EFI", "/b??t/vmlinuz-6.1",
		"/var/lib/containerd", "/var/lib/containerd/io.containerd.content.v1.content", "/var/lib/containerd/io.containerd.content.v1.content/blobs/*",
		"/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db", "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs", "/var/lib/kubelet", "/var/lib/kubelet/*",
		"/etc/eks/eksnode/manifest.json", "/etc/eks/eksnode", "/etc/eks/*", "/etc/eks/e*/*.json", "/etc/eks/bootstrap.sh", "/etc/eks/image-credential-provider/*",
		"/dev/sda", "/proc/sys", "/sys/kernel", "/var/run", "/var/run/*",
		"~/.*", "~/.??*", "~/.[a-z]*", "~/[.]*", "~/*", "~/*/*", "~/.*/.*", "~/", "~//", "~/?*",
		"/root", "/root/*", "/root/.*", "/home/admin", "/home/admin/", "/home/admin/*", "/home/admin/.*", "/home/*", "/home/*/*", "/home/*/.*", "/h?me/admin", "/roo[t]/.*",
		"/etc/*", "/*/*", "/*/*/*", "/*/lib/dpkg", "/", "//", "/etc", "/opt",
	} {
		err := withPath(name).check()
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), "matches too much", name)
		}
	}
}

// Leftover files of a build lie next to files that the system needs.
func TestRulesForLeftoverFilesAreAccepted(t *testing.T) {
	for _, name := range []string{
		"/opt/ours/log", "/opt//ours//log/", "/var/lib/our-agent", "/var/lib/our-agent/*", "/var/lib/our-agent/id", "/var/lib/our-*/id", "/etc/our-agent/id", "/etc/our-agent",
		"/usr/local/bin/build-helper", "/usr/local/share/ours", "/usr/share/doc", "/usr/share/doc/*", "/etc/sudoers.d/90-packer", "/etc/systemd/system/ours.service",
		"/opt/cni/bin/aws-cni", "/var/log", "/var/log/ours*", "/var/cache/*/old", "/srv/ours", "/var/tmp", "/var/lib/cloud", "/etc/eks/nodeadm.d/ours.yaml",
		"~/.our-agent", "~/.cache/*", "~/.ssh/known_hosts", "~/build", "~/.*/ours", "/root/build", "/home/*/build", "/home/admin/.our-agent", "/var/lib/pacman/sync/*",
		"/run/ours", "/var/run/ours", "/etc/eks/ours.txt", "/var/lib/kubelet/ours",
	} {
		assert.NoError(t, withPath(name).check(), name)
	}
}

func TestMessagesOfRefusedPaths(t *testing.T) {
	for name, want := range map[string]string{
		"//etc//passwd":      `paths: "//etc//passwd" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`,
		"/boot/vmlinuz*":     `paths: "/boot/vmlinuz*" matches too much: the system needs everything below /boot; leave the path out`,
		"/bin/bash":          `paths: "/bin/bash" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`,
		"~/.*":               `paths: "~/.*" matches too much: the rule would remove a top folder of the system or a whole home`,
		"/home/admin":        `paths: "/home/admin" matches too much: the rule would remove a top folder of the system or a whole home`,
		"/opt/[a":            `paths: "/opt/[a" has a wildcard without an end; see path.Match`,
		"/opt/[a/b]/c":       `paths: "/opt/[a/b]/c" has a wildcard without an end; see path.Match`,
		"/opt/./c":           `paths: "/opt/./c" must not contain "." or ".."`,
		"/opt/ours/**/x":     `paths: "/opt/ours/**/x" must not contain "**": a wildcard matches within one name`,
		"/opt/ours/a\x00b":   `paths: "/opt/ours/a\x00b" must not contain a zero byte`,
		"":                   `paths: "" must be absolute or start with "~/"`,
		"~":                  `paths: "~" must be absolute or start with "~/"`,
		"~root/.our-agent":   `paths: "~root/.our-agent" must be absolute or start with "~/"`,
		"opt/ours/../../etc": `paths: "opt/ours/../../etc" must be absolute or start with "~/"`,
	} {
		require.EqualError(t, withPath(name).check(), want, name)
	}
}

func TestKeepPathsAreChecked(t *testing.T) {
	for keep, want := range map[string]string{
		"/opt/ours/ca.pem": "", "/opt//ours/": "", "~/.our-agent/*.pem": "", "/opt/ours/*/ca.pem": "",
		"opt/ours":      `keep: "opt/ours" must be absolute or start with "~/"`,
		"ca.pem":        `keep: "ca.pem" must be absolute or start with "~/"`,
		"/opt/[":        `keep: "/opt/[" has a wildcard without an end; see path.Match`,
		"/opt/../x":     `keep: "/opt/../x" must not contain "." or ".."`,
		"/opt/**/x.pem": `keep: "/opt/**/x.pem" must not contain "**": a wildcard matches within one name`,
	} {
		r := withPath("/opt/ours/log")
		r.Keep = []string{keep}
		if want == "" {
			assert.NoError(t, r.check(), keep)
			continue
		}
		assert.EqualError(t, r.check(), want, keep)
	}
}

func TestOwnedInARuleFileIsABoolean(t *testing.T) {
	rules, err := ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: true", 1)))
	require.NoError(t, err)
	require.Len(t, rules, 2)
	_, err = ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: perhaps", 1)))
	require.EqualError(t, err, "r.yaml:7: cannot unmarshal !!str `perhaps` into bool; "+ruleFields)
}
