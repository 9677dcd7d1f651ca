//go:build e2e && full

package offline_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	systems "github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// mkosi of Debian's newest suite builds the example, and the audit of its root finds nothing.
func TestMkosi(t *testing.T) {
	b := open(t)
	tools, err := systems.Debian{Suite: "unstable"}.Plain(b.Ctx, []string{"ca-certificates", "mkosi"}, nil, nil, nil,
		t.Output())
	require.NoError(t, err)
	folder := filepath.Join(t.TempDir(), "mkosi")
	testkit.Run(t, "sh", "-ec", `cp -r ../../examples/mkosi "$0"; cp "$1" "$0"`, folder,
		lab.Eksnode(t))
	for _, file := range []string{"skeleton/etc/apt/sources.list.d/trixie", "sandbox/etc/apt/sources.list.d/mkosi"} {
		name := filepath.Join(folder, "mkosi."+file+".sources")
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte("Types: deb\nURIs: "+aptmirror.Source("debian")+
			"\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"), 0o644))
	}
	// mkosi makes namespaces, which Linux forbids in a chroot.
	out := testkit.Output(t, b.Resolving([]string{"sh", "-ec", `
mount --bind "$0" "$0"; cd "$0"
mount -t proc proc proc; mount --rbind /dev dev; mount --rbind /sys sys
mount -t tmpfs tmpfs run; mount -t tmpfs tmpfs mnt; mkdir mnt/src mnt/old
mount --bind "$1" mnt/src; mount --bind "$2" var/tmp; mount --bind "$2" var/cache
mount --bind /etc/resolv.conf etc/resolv.conf
shift 2
pivot_root . mnt/old; cd /mnt/src; umount --lazy /mnt/old
exec env --unset=TMPDIR mkosi "$@"`, tools, folder, t.TempDir(), "--environment", "KUBERNETES_VERSION=" + lab.Kubelet,
		"--environment", `"OPTIONS=` + strings.Join(b.options[2:], " ") + `"`}))
	t.Logf("%s", out)
	b.root = filepath.Join(folder, "node")
	b.must(t, "audit")
	assert.FileExists(t, filepath.Join(b.root, "etc/eks/bootstrap.sh"))
}
