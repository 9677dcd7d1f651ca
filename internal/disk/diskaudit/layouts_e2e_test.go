//go:build e2e && linux

package diskaudit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// TestOtherLayoutsAreAudited has layouts that are no GPT with one file system in each
// partition, and journals that are not in place yet.
func TestOtherLayoutsAreAudited(t *testing.T) {
	kubelet := map[string]string{"lib/kubelet/pki/kubelet-client-current.pem": "certificate"}
	inVar := map[string]string{"var/lib/kubelet/pki/kubelet-client-current.pem": "certificate"}
	const crash = `mkfs.KIND -q "$1"; mount -o loop "$1" /mnt; cp -a "$2/." /mnt; sync -f /mnt
mkdir -p /mnt/var/lib/kubelet/pki
echo certificate > /mnt/var/lib/kubelet/pki/kubelet-client-current.pem; FSYNC
cp "$1" "$1.copy"; umount /mnt; mv "$1.copy" "$1"`
	dirty := func(kind, fsync string) string {
		return strings.NewReplacer("KIND", kind, "FSYNC", fsync).Replace(crash)
	}
	const one = `sync /mnt/var/lib/kubelet/pki/kubelet-client-current.pem`
	for name, c := range map[string]struct {
		label string
		parts []part
	}{
		"MBR, PARTUUID": {"dos", []part{
			{"83", ext4, root(map[string]string{"etc/fstab": "PARTUUID=12345678-02 /var ext4\n"})},
			{"83", ext4, kubelet}}},
		"MBR, /dev/vda": {"dos", []part{
			{"83", ext4, root(map[string]string{"etc/fstab": "/dev/vda2 /var ext4\n"})}, {"83", ext4, kubelet}}},
		"SUSE": {"gpt", []part{{typeLinux, btrfs + `btrfs -q subvolume create /mnt/@
btrfs -q subvolume create /mnt/@/var; btrfs -q subvolume create /mnt/@/snap
btrfs subvolume set-default /mnt/@/snap; cp -a "$2/var/." /mnt/@/var
rm -r "$2/var"; mkdir "$2/var"; cp -a "$2/." /mnt/@/snap; umount /mnt`,
			root(map[string]string{"etc/fstab": "LABEL=x / btrfs defaults\n/dev/vda1 /var btrfs subvol=/@/var 0 0\n",
				"var/lib/kubelet/pki/kubelet-client-current.pem": "x"})}}},
		"Fedora": {"gpt", []part{{typeLinux, btrfs + `btrfs -q subvolume create /mnt/root
btrfs -q subvolume create /mnt/var; cp -a "$2/var/." /mnt/var; rm -r "$2/var"; mkdir "$2/var"
cp -a "$2/." /mnt/root; umount /mnt`,
			root(map[string]string{
				"etc/fstab": "/dev/vda1 / btrfs subvol=root\n/dev/vda1 /var btrfs compress=zstd:1,subvol=var 0 0\n",
				"var/lib/kubelet/pki/kubelet-client-current.pem": "x"})}}},
		"Ubuntu on btrfs": {"gpt", []part{{typeLinux, btrfs + `btrfs -q subvolume create /mnt/@; cp -a "$2/." /mnt/@
umount /mnt`, root(inVar)}}},
		"ext4, dirty":        {"gpt", []part{{typeRoot, dirty("ext4", one), root(nil)}}},
		"xfs, dirty":         {"gpt", []part{{typeRoot, dirty("xfs", one), root(nil)}}},
		"btrfs, dirty":       {"gpt", []part{{typeRoot, dirty("btrfs", one), root(nil)}}},
		"ext3, after a sync": {"gpt", []part{{typeRoot, dirty("ext3", "sync"), root(nil)}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := withParts(t, c.label, c.parts...)
			before := testkit.Run(t, "sha256sum", path)
			r, err := audit(t, path)
			require.NoError(t, err)
			assert.Equal(t, plan.Findings, r.Result, r.Error)
			assert.Contains(t, found(r), "kubelet-pki")
			assert.Empty(t, r.Warnings)
			assert.Equal(t, before, testkit.Run(t, "sha256sum", path), "the audit must not write")
			testkit.Released(t, path)
		})
	}
}
