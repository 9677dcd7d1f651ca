package disk_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// root makes a folder with a system of busybox. The files are additional ones.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	testkit.Busybox(t, filepath.Join(root, "bin"), "cat", "cp", "echo", "mkdir", "printf", "rm", "sh", "tr", "uname")
	return testkit.Programs(t, root, files)
}

// A disk of a root has the partitions, file systems, fstab and boot loader with which it
// boots. Machines boot in e2e/offline.
func TestADiskIsMadeOfARoot(t *testing.T) {
	folder := root(t, map[string]string{
		"etc/os-release": "ID=debian\nPRETTY_NAME='Debian of the test'\n", "etc/resolv.conf": "",
		"etc/fstab":        "/dev/sda1 / ext4 defaults 0 1\ntmpfs /var/cache tmpfs size=9m 0 0\n",
		"boot/vmlinuz-6.1": "kernel", "boot/initrd.img-6.1": "initramfs", "etc/kernel/cmdline": "console=ttyS0",
		"usr/lib/systemd/boot/efi/systemd-bootx64.efi": "loader",
	})
	require.NoError(t, os.Chown(filepath.Join(folder, "etc/fstab"), 7, 8))
	tarball := filepath.Join(t.TempDir(), "root.tar.zst")
	testkit.Run(t, "tar", "-C", folder, "--zstd", "-cf", tarball, ".")
	for kind, from := range map[string]string{"ext4": folder, "xfs": tarball} {
		t.Run(kind, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "node.raw")
			fields := map[string]any{"base": from, "image": image, "root_file_system": kind, "disk_size": 2}
			_, err := build(t, fields, func(ctx context.Context, comm packersdk.Communicator) error {
				_, fstab, _ := command(ctx, t, comm, "cat /etc/fstab; busybox stat -c %u:%g /etc/fstab", "")
				lines := strings.Split(fstab, "\n")
				assert.Regexp(t, `^UUID=[0-9a-f-]{36} / auto defaults 0 1$`, lines[0])
				assert.Regexp(t, `^UUID=[0-9A-F]{4}-[0-9A-F]{4} /boot/efi vfat `, lines[1])
				assert.Equal(t, "tmpfs /var/cache tmpfs size=9m 0 0", lines[2])
				_, mounts, _ := command(ctx, t, comm, "cat /proc/mounts", "")
				assert.Contains(t, mounts, " / "+kind+" rw")
				return nil
			})
			require.NoError(t, err)
			out := testkit.Run(t, "sh", "-ec", `sfdisk --verify "$1"; sfdisk --dump "$1"; mdir -b -/ -i "$1@@2M" ::
mtype -i "$1@@2M" ::/loader/entries/6.1.conf; blkid -p -O 514M "$1"`, "sh", image)
			for _, part := range []string{
				"No errors detected", "start=        2048, size=        2048, type=21686148-6449-6E6F-744E-656564454649",
				"size=     1048576, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
				"::/EFI/BOOT/BOOTX64.EFI\n", "::/vmlinuz-6.1\n", "::/initrd.img-6.1\n", "title Debian of the test\n",
				"linux /vmlinuz-6.1\ninitrd /initrd.img-6.1\noptions root=UUID=", " console=ttyS0\n", `TYPE="` + kind + `"`,
			} {
				assert.Contains(t, out, part)
			}
		})
	}
}

func TestARootThatCannotBootIsRefused(t *testing.T) {
	system := map[string]string{"etc/os-release": "ID=debian\n", "boot/vmlinuz-6.1": "kernel"}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, files := range []map[string]string{system, more} {
			for name, text := range files {
				all[name] = text
			}
		}
		return all
	}
	program := "#!/bin/sh\n"
	for why, c := range map[string]struct {
		files  map[string]string
		fields map[string]any
	}{
		"has no /etc/os-release: give the folder or tar file of a whole root": {},
		"has no kernel in /boot: install the distribution's kernel there first": {
			files: map[string]string{"etc/os-release": "ID=debian\n"},
		},
		"has no boot loader: install GRUB or systemd-boot there first": {files: system},
		"has GRUB's programs but no GRUB in /usr/lib/grub": {files: with(map[string]string{
			"usr/bin/grub-mkimage": program, "usr/sbin/grub-mkconfig": program, "bin/ln": program,
		})},
		`root_file_system: "ext3": give ext4 or xfs`: {files: system, fields: map[string]any{"root_file_system": "ext3"}},
		"base_checksum is for files and addresses":   {fields: map[string]any{"base_checksum": strings.Repeat("0", 64)}},
		"root_file_system is only for a folder or tar file as base; a disk has its file system": {
			fields: map[string]any{"base": base(t), "root_file_system": "xfs"},
		},
	} {
		image := filepath.Join(t.TempDir(), "node.raw")
		fields := map[string]any{"base": root(t, c.files), "image": image}
		for name, value := range c.fields {
			fields[name] = value
		}
		_, err := tryBuild(t, fields, nil)
		require.ErrorContains(t, err, why)
		assert.Empty(t, testkit.Names(t, filepath.Dir(image)))
	}
}
