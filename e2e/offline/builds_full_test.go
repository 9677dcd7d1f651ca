//go:build e2e && full

package offline_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	systems "github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
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

// TestOfflineRootOnArch compares an offline root with a booted machine, with pacman.
func TestOfflineRootOnArch(t *testing.T) {
	arch, ok := shape.All()["arch"]
	require.True(t, ok)
	b := openOn(t, lab.System{Shape: &arch})
	testkit.Output(t, b.provision(t))
	b.equal(t)
}

// TestBuildOfAFolder makes a disk of the folder with the base system, with GRUB of that
// system. Virtual machines boot from the disk by BIOS and by UEFI.
func TestBuildOfAFolder(t *testing.T) {
	b := open(t)
	require.NoError(t, systems.Install(b.Ctx, t.Output(), machine.Packages(machine.QEMU)...))
	testkit.Output(t, b.provision(t, "--packages", "grub-efi-amd64-bin"))
	made := filepath.Join(t.TempDir(), "node.raw")
	argv := append([]string{lab.Eksnode(t), "build", "--base", b.root, "-o", made, "--root-file-system", "xfs"},
		b.options...)
	testkit.Output(t, b.Resolving(argv))
	for _, uefi := range []bool{false, true} {
		n := b.Start(t, machine.Config{Kind: machine.QEMU, Image: made, UEFI: uefi,
			InstanceID: fmt.Sprint("i-uefi-", uefi)})
		assert.Equal(t, "Kubernetes v"+lab.Kubelet, n.Sh(t, "kubelet --version"))
		assert.Equal(t, "xfs\nvfat", n.Sh(t, "findmnt -no FSTYPE /; findmnt -no FSTYPE /boot/efi"))
		assert.Equal(t, fmt.Sprint(uefi), n.Sh(t, "[ ! -d /sys/firmware/efi ] && echo false || echo true"))
		assert.NoError(t, n.Close())
	}
}

// TestBuildsAreKilled kills builds at random moments. Nothing of a build stays, and the base
// image is as it was.
func TestBuildsAreKilled(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	base, made := filepath.Join(folder, "base.raw"), filepath.Join(folder, "node.raw")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	before := testkit.Sum(t, base)
	build := func() (*exec.Cmd, io.ReadCloser) {
		cmd := b.build(t, base, "-o", made)
		said, err := cmd.StderrPipe()
		require.NoError(t, err)
		return cmd, said
	}
	began := time.Now()
	whole, said := build()
	require.NoError(t, whole.Start())
	_, _ = io.Copy(io.Discard, said)
	require.NoError(t, whole.Wait())
	takes := time.Since(began)
	require.NoError(t, os.Remove(made))
	for range 50 {
		cmd, said := build()
		require.NoError(t, cmd.Start())
		at := rand.N(takes)
		kill := time.AfterFunc(at, func() { _ = cmd.Process.Kill() })
		_, _ = io.Copy(io.Discard, said) // until nobody can write
		failed := cmd.Wait()
		t.Logf("after %v: %v", at, failed)
		kill.Stop()
		require.NoError(t, os.RemoveAll(made)) // of a build that was faster
		require.NoError(t, machine.Poll(b.Ctx, func() error {
			out, err := exec.CommandContext(b.Ctx, "sh", "-c", `losetup --list --noheadings --output BACK-FILE
cat /proc/self/mountinfo; pgrep --list-full eksnode || true`).Output()
			if strings.Contains(string(out), folder) {
				return fmt.Errorf("something of the build stays: %s", out)
			}
			return err
		}))
		assert.Equal(t, []string{"base.raw", "cache"}, testkit.Names(t, folder))
	}
	assert.Equal(t, before, testkit.Sum(t, base), "the base image")
}
