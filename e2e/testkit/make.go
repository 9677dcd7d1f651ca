package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"
)

// Certificate signs a certificate with its own key, which it returns too. The certificate is
// valid for an hour, unless the template says more.
func Certificate(t testing.TB, template x509.Certificate) (certificate []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, template.BasicConstraintsValid = big.NewInt(1), true
	template.KeyUsage = x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), key
}

// Disk mounts a new file system in a file of a size, such as 8M, until the test ends. Options are
// those of mount, and mkfs is the program that makes the file system, without the file.
func Disk(t testing.TB, at, size, options string, mkfs ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "disk")
	// The variables allow mkfs.xfs sizes below 300 MB, which are only for tests.
	Run(t, "sh", append([]string{"-ec", `file=$1 at=$2 size=$3 options=$4; shift 4
mkdir -p "$at"; truncate --size="$size" "$file"; TEST_DIR=. TEST_DEV=. QA_CHECK_FS=1 "$@" "$file"
mount -o "loop,$options" "$file" "$at"`, "sh", file, at, size, options}, mkfs...)...)
	t.Cleanup(func() { Run(t, "sh", "-ec", `if mountpoint -q "$1"; then umount --recursive "$1"; fi`, "sh", at) })
	return file
}

// RootDisk makes a disk image of mib MiB with the boot loader's mark of a BIOS and one root,
// which has the files of a folder. Options are those of mkfs.ext4.
func RootDisk(t testing.TB, disk, root string, mib int, options ...string) {
	t.Helper()
	Run(t, "sh", append([]string{"-ec", `disk=$1 root=$2 mib=$3; shift 3
truncate -s $((mib - 4))M "$disk.part"; mkfs.ext4 -q "$@" -d "$root" "$disk.part"; truncate -s "${mib}M" "$disk"
printf 'label: gpt\nstart=2048, size=%d, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' $(((mib - 4) * 2048)) | sfdisk -q "$disk"
dd if="$disk.part" of="$disk" bs=1M seek=1 conv=notrunc,sparse status=none
printf '\353\143\220 GRUB ' | dd of="$disk" conv=notrunc status=none; rm "$disk.part"`,
		"sh", disk, root, fmt.Sprint(mib)}, options...)...)
}

// DiskOf makes a RootDisk with files. Each of them may run.
func DiskOf(t testing.TB, files map[string]string, mib int, options ...string) (disk string) {
	t.Helper()
	disk = filepath.Join(t.TempDir(), "disk.raw")
	RootDisk(t, disk, Programs(t, t.TempDir(), files), mib, options...)
	return disk
}

// CleanNode returns the files of a root in which an audit finds nothing, without the rule not-a-node.
func CleanNode(t testing.TB) map[string]string {
	t.Helper()
	shell := Content(t, "/proc/self/exe")[:4096] // an ELF file for this architecture
	return map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/machine-id": "", "bin/sh": shell}
}

// Busybox puts busybox, and links with the names of its applets, into a folder of programs.
func Busybox(t testing.TB, folder string, applets ...string) {
	t.Helper()
	Programs(t, folder, map[string]string{"busybox": Content(t, "/bin/busybox")})
	for _, name := range applets {
		require.NoError(t, os.Symlink("busybox", filepath.Join(folder, name)))
	}
}

// Programs writes files that may run below a folder, and returns the folder.
func Programs(t testing.TB, root string, files map[string]string) string {
	t.Helper()
	for name, text := range files {
		Write(t, filepath.Join(root, name), text)
		require.NoError(t, os.Chmod(filepath.Join(root, name), 0o755))
	}
	return root
}

// Bolt makes a database such as containerd's. A line "a b c" is a chain of buckets, and
// "a b = text" the key b in the bucket a.
func Bolt(t testing.TB, name, text string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	db, err := bbolt.Open(name, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for line := range strings.Lines(text) {
			chain, value, isKey := strings.Cut(strings.TrimSpace(line), " = ")
			parts := strings.Split(chain, " ")
			last := len(parts)
			if isKey {
				last--
			}
			b, err := tx.CreateBucketIfNotExists([]byte(parts[0]))
			for _, part := range parts[1:last] {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			if err == nil && isKey {
				err = b.Put([]byte(parts[last]), []byte(value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
}
