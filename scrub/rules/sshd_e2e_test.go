//go:build e2e

package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// sshd downloads Debian's sshd and returns a root that has it, with the
// machine's own libraries.
func sshd(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	testkit.Run(t, "sh", "-ec", `cd "$1"
mkdir -p opt/ssh etc/ssh run/sshd dev proc
cd opt/ssh
apt-get download -qq openssh-server openssh-client libwrap0 2>/dev/null || { apt-get update -qq; apt-get download -qq openssh-server openssh-client libwrap0; }
for p in *.deb; do dpkg -x "$p" .; done
usr/bin/ssh-keygen -q -t ed25519 -N '' -f ../../etc/ssh/key
printf '%s\n' root:x:0:0::/root:/bin/sh admin:x:1000:1000::/home/admin:/bin/sh sshd:x:100:65534::/run/sshd:/bin/sh > ../../etc/passwd
printf '%s\n' root:x:0: wheel:x:1000:admin nogroup:x:65534: > ../../etc/group
`, "sh", root)
	return root
}

// effectiveValue is a setting of one user, as the real sshd prints it.
func effectiveValue(t *testing.T, root, keyword, user string) string {
	t.Helper()
	out := testkit.Run(t, "unshare", "-m", "sh", "-ec", `cd "$1"
for d in bin dev lib lib64 usr; do mkdir -p $d; mount --rbind /$d $d; done
chroot . env LD_LIBRARY_PATH=$(echo opt/ssh/usr/lib/*-linux-gnu | sed 's|^|/|') \
  /opt/ssh/usr/sbin/sshd -T -h /etc/ssh/key -f /etc/ssh/sshd_config -C user="$2",host=h,addr=192.0.2.1`, "sh", root, user)
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), keyword+" "); ok {
			return value
		}
	}
	return ""
}

// For each user, the files that the real sshd reads are among those that the
// scrub finds, and without Match blocks they are exactly those.
func TestTheRealSSHDReadsTheSameFiles(t *testing.T) {
	root := sshd(t)
	for name, c := range keyTrees(t) {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Join(root, "etc/ssh/sshd_config.d")))
			files := map[string]string{}
			for n, text := range c.Config {
				at := filepath.Join(root, "etc/ssh", n)
				testkit.Write(t, at, text)
				files["etc/ssh/"+n] = text
			}
			h := hosttest.Root(t, files)
			d := &rule.Draft{Host: h}
			config := readSSHD(d)
			require.NoError(t, d.Err)
			var ours []string
			for _, s := range config.effective("authorizedkeysfile") {
				ours = append(ours, strings.Join(s.args, " "))
			}
			if len(ours) == 0 {
				ours = append(ours, ".ssh/authorized_keys .ssh/authorized_keys2")
			}
			for _, user := range []string{"root", "admin"} {
				real := effectiveValue(t, root, "authorizedkeysfile", user)
				if config.blocks == 0 {
					assert.Equal(t, ours, []string{real}, user)
				} else {
					assert.Contains(t, append(ours, ".ssh/authorized_keys .ssh/authorized_keys2"), real, user)
				}
			}
		})
	}
}
