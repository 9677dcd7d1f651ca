//go:build linux

package disks

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

const clear = "; clear the disk with blkdiscard --zeroout if its content is not needed"

// large returns a disk whose probed beginning and end do not overlap.
func large() []byte { return make([]byte, 4*probed) }

func largeWith(at int, magic string) []byte {
	b := large()
	if at < 0 {
		at += len(b)
	}
	copy(b[at:], magic)
	return b
}

// member returns a disk with an array's superblock of version 1.2.
func member(set, name string) []byte {
	b := large()
	copy(b[md12:], mdMagic)
	binary.LittleEndian.PutUint32(b[md12+4:], 1)
	copy(b[md12+16:md12+32], set)
	copy(b[md12+32:md12+64], name)
	return b
}

func ours() []byte { return member("0123456789abcdef", "ip-10-0-0-1:kubernetes") }

// The beginning and the end of every future member of an array are probed, at any
// position in the list of disks.
func TestEveryDiskOfAnArrayIsProbed(t *testing.T) {
	unknown := " holds unknown content" + clear
	for name, c := range map[string]struct {
		disk []byte
		want string
	}{
		"ext4":                    {largeWith(0x438, "\x53\xef"), " holds ext4" + clear},
		"xfs":                     {largeWith(0, "XFSB"), " holds xfs" + clear},
		"btrfs":                   {largeWith(0x10040, "_BHRfS_M"), " holds btrfs" + clear},
		"a partition table":       {largeWith(0x1fe, "\x55\xaa"), " holds a partition table" + clear},
		"GPT":                     {largeWith(512, "EFI PART"), " holds a partition table" + clear},
		"GPT, its copy only":      {largeWith(-512, "EFI PART"), unknown},
		"LUKS":                    {largeWith(0, "LUKS\xba\xbe"), " holds a LUKS header" + clear},
		"LVM":                     {largeWith(536, "LVM2 001"), " holds an LVM physical volume" + clear},
		"swap":                    {largeWith(4086, "SWAPSPACE2"), " holds swap" + clear},
		"swap of larger pages":    {largeWith(65526, "SWAPSPACE2"), " holds swap" + clear},
		"bcache":                  {largeWith(0x1018, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"), " holds bcache" + clear},
		"ZFS at the end":          {largeWith(-256<<10+128<<10, "\x0c\xb1\xba"), unknown},
		"an array 0.90":           {largeWith(-0x10000, mdMagic), " holds a member of an array" + clear},
		"an array 1.0":            {largeWith(-8192, mdMagic), " holds a member of an array" + clear},
		"an array 1.1":            {largeWith(0, mdMagic), " holds a member of an array" + clear},
		"another's array":         {member("0123456789abcdef", "db-1:data"), ` holds a member of the array "db-1:data", which eksnode did not create` + clear},
		"a file system on RAID 1": {append(largeWith(0, "XFSB")[:4*probed-8192], append([]byte(mdMagic), make([]byte, 8188)...)...), " holds xfs and a member of an array" + clear},
		"data without signature":  {largeWith(700, "secret"), unknown},
		"a byte at the end":       {largeWith(-1, "x"), unknown},
	} {
		for _, order := range [][2]string{{"nvme1n1", "nvme2n1"}, {"nvme2n1", "nvme1n1"}} {
			t.Run(name+", "+order[0], func(t *testing.T) {
				h := instance(t, map[string][]byte{order[0]: c.disk, order[1]: large()}, nil)
				for _, strategy := range []string{nodeconfig.RAID0, nodeconfig.RAID10} {
					answer, err := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: strategy}}.Plan(t.Context(), h)
					require.EqualError(t, err, "/dev/"+order[0]+c.want)
					assert.Empty(t, answer.Actions)
				}
			})
		}
	}
}

// disks names the disks of an instance store.
func disks(contents ...[]byte) map[string][]byte {
	all := map[string][]byte{}
	for i, content := range contents {
		all[fmt.Sprintf("nvme%dn1", i+1)] = content
	}
	return all
}

// Disks with content, and disks that do not form one array, are not changed.
func TestDisksAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		strategy string
		disks    map[string][]byte
		holders  map[string]string
		more     map[string]string
		want     string
	}{
		"ours and an empty one": {"RAID0", disks(ours(), large()), nil, nil,
			"/dev/nvme1n1 holds a member of an array, but /dev/nvme2n1 is empty; clear /dev/nvme1n1 with blkdiscard --zeroout if its content is not needed"},
		"an empty one and ours": {"RAID0", disks(large(), ours()), nil, nil,
			"/dev/nvme2n1 holds a member of an array, but /dev/nvme1n1 is empty; clear /dev/nvme2n1 with blkdiscard --zeroout if its content is not needed"},
		"two arrays of ours": {"RAID0", disks(ours(), member("fedcba9876543210", "kubernetes")), nil, nil,
			"/dev/nvme1n1 and /dev/nvme2n1 are members of different arrays; clear both disks with blkdiscard --zeroout if their content is not needed"},
		"two arrays, assembled": {"RAID0", disks(ours(), member("fedcba9876543210", "kubernetes")), map[string]string{"nvme1n1": "md126", "nvme2n1": "md127"}, nil,
			"/dev/nvme1n1 and /dev/nvme2n1 are members of different arrays; clear both disks with blkdiscard --zeroout if their content is not needed"},
		"another's, assembled": {"RAID0", disks(member("0123456789abcdef", "db:0"), member("0123456789abcdef", "db:0")), map[string]string{"nvme1n1": "md0", "nvme2n1": "md0"}, nil,
			`/dev/nvme1n1 holds a member of the array "db:0", which eksnode did not create` + clear},
		"ours and an empty one, assembled": {"RAID0", disks(ours(), large()), map[string]string{"nvme1n1": "md127"}, nil,
			"/dev/nvme1n1 holds a member of an array, but /dev/nvme2n1 is empty; clear /dev/nvme1n1 with blkdiscard --zeroout if its content is not needed"},
		"an empty one that is used": {"RAID0", disks(large(), large()), map[string]string{"nvme2n1": "dm-0"}, nil,
			"/dev/nvme2n1 is used by dm-0, which is not an array of the instance store"},
		"ours that does not run": {"RAID0", disks(ours(), ours()), map[string]string{"nvme1n1": "md127", "nvme2n1": "md127"}, map[string]string{"/sys/block/md127/md/array_state": "inactive\n"},
			"the array /dev/md127 is inactive; mdadm --detail shows the missing disks"},
		"another array of this name": {"RAID0", disks(large(), large()), nil, map[string]string{"/dev/md/kubernetes": "x"},
			"the array /dev/md/kubernetes has disks outside the instance store; stop this array with mdadm --stop"},
		"RAID0 of a file system": {"RAID0", disks(largeWith(0, "XFSB")), nil, nil, "/dev/nvme1n1 holds xfs" + clear},
		"RAID10 of one disk":     {"RAID10", disks(large()), nil, nil, "the instance store has one disk, and RAID10 needs two; use RAID0"},
		"RAID0 of two arrays": {"RAID0", disks(large(), large()), map[string]string{"nvme1n1": "md126", "nvme2n1": "md127"}, nil,
			"the instance store's disks are in several arrays (md126 has /dev/nvme1n1, md127 has /dev/nvme2n1); stop one array with mdadm --stop"},
		"unknown content":        {"Mount", disks(largeWith(512, "LABELONE")), nil, nil, "/dev/nvme1n1 holds unknown content" + clear},
		"half of a RAID 1":       {"Mount", disks(append(largeWith(0x438, "\x53\xef")[:4*probed-8192], append([]byte(mdMagic), make([]byte, 8188)...)...)), nil, nil, "/dev/nvme1n1 holds ext4 and a member of an array" + clear},
		"used":                   {"Mount", disks(largeWith(0, "XFSB")), map[string]string{"nvme1n1": "dm-3"}, nil, "/dev/nvme1n1 is in use by dm-3; stop dm-3 first"},
		"a boot sector and ext4": {"Mount", disks(append(append(make([]byte, 0x1fe), 0x55, 0xaa), largeWith(0x438, "\x53\xef")[0x200:]...)), nil, nil, "/dev/nvme1n1 holds ext4 and a partition table" + clear},
		"no size":                {"Mount", disks(nil), nil, nil, "reading /dev/nvme1n1: the device has no size"},
	} {
		t.Run(name, func(t *testing.T) {
			h := instance(t, c.disks, c.holders)
			hosttest.Lay(t, h.Root(), c.more)
			answer, err := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: c.strategy}}.Plan(t.Context(), h)
			require.EqualError(t, err, c.want)
			assert.Empty(t, answer.Actions)
		})
	}
}

// Arrays that eksnode created are used under any device name.
func TestExistingEksnodeArrayIsUsed(t *testing.T) {
	const assemble = "run mdadm --assemble --run /dev/md/kubernetes /dev/nvme1n1 /dev/nvme2n1"
	for name, c := range map[string]struct {
		holders map[string]string
		disks   map[string][]byte
		want    string
	}{
		"not assembled":      {nil, nil, assemble},
		"under another name": {map[string]string{"nvme1n1": "md127", "nvme2n1": "md127"}, map[string][]byte{"md127": largeWith(0, "XFSB")}, "write /etc/systemd/system/" + escape("/mnt/k8s-disks/0") + ".mount"},
		"without a disk":     {map[string]string{"nvme1n1": "md127"}, map[string][]byte{"md127": largeWith(0x438, "\x53\xef")}, "write /etc/systemd/system/" + escape("/mnt/k8s-disks/0") + ".mount"},
	} {
		t.Run(name, func(t *testing.T) {
			disks := map[string][]byte{"nvme1n1": ours(), "nvme2n1": ours()}
			maps.Copy(disks, c.disks)
			answer, err := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: nodeconfig.RAID0}}.Plan(t.Context(), instance(t, disks, c.holders))
			require.NoError(t, err)
			assert.Equal(t, c.want, commands(answer.Actions[:1]))
		})
	}
}

// A dangling link of udev is an error, not an empty disk.
func TestMissingDiskIsAnError(t *testing.T) {
	h := instance(t, map[string][]byte{"nvme1n1": large(), "nvme2n1": large()}, nil)
	require.NoError(t, os.Remove(filepath.Join(h.Root(), "dev/nvme2n1")))
	for _, strategy := range []string{nodeconfig.RAID0, nodeconfig.Mount} {
		_, err := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: strategy}}.Plan(t.Context(), h)
		assert.EqualError(t, err, "reading /dev/nvme2n1: open /dev/nvme2n1: no such file or directory")
	}
}

// Content that appears on a device between plan and apply stays. The commands
// themselves would fail with another error, because the machine is an image root.
func TestDeviceIsProbedAgainBeforeWriting(t *testing.T) {
	h := instance(t, map[string][]byte{"nvme1n1": large()}, nil)
	disk := filepath.Join(h.Root(), "dev/nvme1n1")
	for _, strategy := range []string{nodeconfig.RAID0, nodeconfig.Mount} {
		require.NoError(t, os.WriteFile(disk, large(), 0o600))
		answer, err := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: strategy}}.Plan(t.Context(), h)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(disk, largeWith(0, "LUKS\xba\xbe"), 0o600))
		assert.EqualError(t, answer.Actions[0].Do(t.Context(), nil), "/dev/nvme1n1 holds a LUKS header"+clear)
	}
	// The file system of an array that was only assembled is kept.
	want := content{name: ext4, uuid: "30303030-3030-3030-3030-303030303030"}
	fs := largeWith(0x438, "\x53\xef")
	copy(fs[0x468:], "0000000000000000")
	require.NoError(t, os.WriteFile(disk, fs, 0o600))
	assert.NoError(t, format(h, want, "/dev/nvme1n1").Do(t.Context(), nil))
	want.uuid = "x"
	assert.EqualError(t, format(h, want, "/dev/nvme1n1").Do(t.Context(), nil), "/dev/nvme1n1 holds ext4"+clear)
	require.NoError(t, os.WriteFile(disk, large(), 0o600))
	assert.ErrorContains(t, format(h, want, "/dev/nvme1n1").Do(t.Context(), nil), "not possible on an image root")
}

// Disks with the formats of other programs are recognized as content.
func TestRealContentIsRecognized(t *testing.T) {
	for program, c := range map[string]struct {
		argv []string
		want string
	}{
		"mkswap":     {[]string{"mkswap"}, "swap"},
		"mke2fs":     {[]string{"mke2fs", "-q", "-F"}, ext4},
		"cryptsetup": {[]string{"cryptsetup", "luksFormat", "--batch-mode", "--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--key-file", "/etc/passwd"}, "a LUKS header"},
		"mkfs.xfs":   {[]string{"mkfs.xfs", "-q"}, xfs},
		"mkfs.btrfs": {[]string{"mkfs.btrfs", "-q"}, "btrfs"},
	} {
		t.Run(program, func(t *testing.T) {
			if _, err := exec.LookPath(program); err != nil {
				t.Log(program + " is not installed")
				return
			}
			h := instance(t, map[string][]byte{"nvme1n1": nil}, nil)
			image := filepath.Join(h.Root(), "dev/nvme1n1")
			require.NoError(t, os.Truncate(image, 320<<20))
			testkit.Run(t, c.argv[0], append(c.argv[1:], image)...)
			got, err := probe(h, "/dev/nvme1n1")
			require.NoError(t, err)
			assert.Equal(t, c.want, got.name)
			// Content without its signature is still content.
			testkit.Run(t, "wipefs", "--all", image)
			got, err = probe(h, "/dev/nvme1n1")
			require.NoError(t, err)
			assert.Equal(t, somethingElse, got.name)
		})
	}
}

// A device is empty only if all probed bytes are zero.
func FuzzIdentify(f *testing.F) {
	f.Add([]byte("XFSB"), uint16(0))
	f.Add([]byte(mdMagic), uint16(md12))
	f.Add([]byte("\x53\xef"), uint16(0x438))
	f.Add([]byte("\x55\xaa"), uint16(0x1fe))
	f.Add(make([]byte, 10), uint16(7))
	f.Fuzz(func(t *testing.T, text []byte, from uint16) {
		b := make([]byte, int(from)+len(text))
		copy(b[from:], text)
		size := int64(len(b))
		c := identify(b, b, append(found(b, 0, atBeginning()), found(b, 0, atEnd(size))...))
		isZero := true
		for _, one := range b {
			isZero = isZero && one == 0
		}
		assert.Equal(t, isZero, c.name == "")
	})
}
