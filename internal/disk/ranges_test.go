package disk

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRanges subtracts, merges and cuts lists.
func TestRanges(t *testing.T) {
	s := &ranges{}
	for _, r := range []Range{{0, 10}, {10, 5}, {15, 0}, {20, 10}, {40, 1}} {
		s.add(r.Offset, r.Length)
	}
	assert.Equal(t, []Range{{0, 15}, {20, 10}, {40, 1}}, s.list)
	assert.Equal(t, []Range{{0, 2}, {8, 2}, {28, 2}}, s.without([]Range{{40, 9}, {3, 5}, {2, 3}, {10, 18}}).list)
	assert.Equal(t, s.list, s.without(nil).list)
	assert.Equal(t, []Range{{14, 1}, {20, 5}}, within(s.list, Range{14, 11}))
	assert.Empty(t, within(s.list, Range{15, 5}))
	assert.Equal(t, []Range{{1, 9}, {20, 2}}, merged([]Range{{20, 2}, {1, 4}, {2, 1}, {5, 5}}))
	assert.Equal(t, int64(26), total(s.list))
}

// TestLongListsStaySmall has more pieces than the lists keep. Free space may be
// lost, and used space may grow, but never the reverse.
func TestLongListsStaySmall(t *testing.T) {
	free, data, exact := &ranges{}, &extents{}, &ranges{}
	const pieces = 3*mostRanges + 7
	for i := range int64(pieces) {
		length := int64(4096)
		if i%1000 == 0 {
			length = 20000
		}
		free.add(i<<16, length)
		data.add(i<<16, length)
		exact.add(i<<16, min(length, 8<<10))
	}
	assert.Equal(t, Range{0, 8 << 10}, exact.list[0], "the first pieces to go are shorter")
	assert.Less(t, len(free.list), mostRanges+2)
	assert.Less(t, len(data.list), mostRanges+2)
	for i := int64(0); i < pieces; i += 1000 {
		assert.Len(t, within(data.list, Range{i << 16, 20000}), 1)
	}
	for _, r := range free.list {
		assert.Zero(t, r.Offset%(1<<16))
		assert.LessOrEqual(t, r.Length, int64(20000))
	}
	assert.NotEmpty(t, free.list)
}

// failing is a disk with an error of its own.
type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, syscall.EIO }

// TestErrorsOfTheDiskAreNamed has an error that is no truncation.
func TestErrorsOfTheDiskAreNamed(t *testing.T) {
	_, err := bytesAt(failing{}, 0, 1)
	assert.ErrorIs(t, err, syscall.EIO)
	d := &Image{path: "disk.raw", size: mib, reader: failing{}, data: []Range{{0, mib}}}
	_, err = d.ReadAt(make([]byte, 1), 0)
	assert.ErrorIs(t, err, syscall.EIO)
}

// TestRoot has the layouts of distributions, and layouts without one root.
func TestRoot(t *testing.T) {
	const size = 1000 * 1000 * 1000
	part := func(number int, role, kind, label string) Partition {
		return Partition{Number: number, Role: role, Kind: kind, Label: label, Range: Range{int64(number) * size, size}}
	}
	esp := part(15, RoleESP, KindVFAT, "UEFI")
	for name, c := range map[string]struct {
		partitions []Partition
		number     int
		want       int
		err        string
	}{
		"Debian":               {[]Partition{part(1, RoleRoot, "ext4", ""), part(14, RoleBIOS, KindEmpty, ""), esp}, 0, 1, ""},
		"Ubuntu":               {[]Partition{part(1, "", "ext4", "cloudimg-rootfs"), part(14, RoleBIOS, KindEmpty, ""), esp, part(16, RoleBoot, "ext4", "BOOT")}, 0, 1, ""},
		"Amazon Linux":         {[]Partition{part(1, "", "xfs", "/"), part(127, RoleBIOS, KindEmpty, ""), part(128, RoleESP, KindVFAT, "")}, 0, 1, ""},
		"RHEL":                 {[]Partition{part(1, RoleBIOS, KindEmpty, ""), esp, part(3, "", "xfs", "boot"), part(4, "", "xfs", "root")}, 0, 4, ""},
		"Fedora":               {[]Partition{part(1, RoleBIOS, KindEmpty, ""), esp, part(3, RoleBoot, "ext4", "BOOT"), part(4, RoleRoot, "btrfs", "fedora")}, 0, 4, ""},
		"SUSE":                 {[]Partition{part(1, RoleBIOS, "", ""), esp, part(3, "", "xfs", "ROOT")}, 0, 3, ""},
		"Flatcar":              {[]Partition{part(1, RoleESP, KindVFAT, ""), part(3, "", "ext4", "USR-A"), part(4, "", "", ""), part(6, "", "btrfs", "OEM"), part(9, "", "ext4", "ROOT")}, 0, 9, ""},
		"by type, not label":   {[]Partition{part(1, RoleRoot, "ext4", "system"), part(2, "", "ext4", "root")}, 0, 1, ""},
		"root and home":        {[]Partition{part(1, RoleRoot, "ext4", ""), part(2, RoleHome, "ext4", ""), part(3, RoleSwap, KindSwap, "")}, 0, 1, ""},
		"unlabelled boot":      {[]Partition{part(1, "", "ext4", ""), part(2, "", "xfs", "root")}, 0, 2, ""},
		"two roots":            {[]Partition{part(1, RoleRoot, "ext4", "A"), part(2, RoleRoot, "ext4", "B")}, 0, 0, `several partitions can be the root: 1 (ext4, 1.0 GB, label "A"), 2 (ext4, 1.0 GB, label "B"); give the number of the root partition`},
		"two roots, one label": {[]Partition{part(1, RoleRoot, "ext4", "A"), part(2, RoleRoot, "ext4", "rootfs")}, 0, 2, ""},
		"two roots, a number":  {[]Partition{part(1, RoleRoot, "ext4", "A"), part(2, RoleRoot, "ext4", "B")}, 1, 1, ""},
		"the number of a boot": {[]Partition{part(1, "", "ext4", "boot"), part(2, "", "ext4", "root")}, 1, 1, ""},
		"a wrong number":       {[]Partition{part(1, RoleRoot, "ext4", "")}, 7, 0, "the disk has no partition 7, but 1 (ext4, 1.0 GB)"},
		"the number of a swap": {[]Partition{part(1, RoleRoot, "ext4", ""), part(2, RoleSwap, KindSwap, "")}, 2, 0, "partition 2 (swap, 1.0 GB) is no Linux file system"},
		"the number of a LUKS": {[]Partition{part(1, "", KindLUKS, "")}, 1, 0, "partition 1 (LUKS, 1.0 GB) is no Linux file system, but a file system inside LUKS is not read; build the image without that, or mount its root read-only and run eksnode audit --root"},
		"a striped volume":     {[]Partition{{Number: 1001, Volume: "vg/root", Elsewhere: "it is striped"}}, 1001, 0, "the logical volume vg/root is not read: it is striped; use linear volumes on one disk, or mount the root read-only and run eksnode audit --root"},
		"LVM":                  {[]Partition{part(1, "", "xfs", "boot"), part(2, RoleLVM, KindLVM, "")}, 0, 0, "no root file system found: partition 2 (LVM physical volume, 1.0 GB) may have it, but a file system inside LVM physical volume is not read; build the image without that, or mount its root read-only and run eksnode audit --root"},
		"LUKS":                 {[]Partition{esp, part(2, "", KindLUKS, "")}, 0, 0, "no root file system found: partition 2 (LUKS, 1.0 GB) may have it, but a file system inside LUKS is not read; build the image without that, or mount its root read-only and run eksnode audit --root"},
		"nothing":              {[]Partition{esp, part(2, "", "", "")}, 0, 0, `no root file system found among the partitions: 15 (vfat, 1.0 GB, label "UEFI"), 2 (unknown content, 1.0 GB)`},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Layout{Table: "gpt", Partitions: c.partitions}
			root, err := l.Root(c.number)
			if c.err != "" {
				assert.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, root.Number)
		})
	}
	l := &Layout{Partitions: []Partition{{Kind: KindEmpty, Range: Range{0, size}}}}
	_, err := l.Root(0)
	assert.EqualError(t, err, "no root file system found: the disk has no partition table and no Linux file system (empty, 1.0 GB)")
	l = &Layout{Table: "gpt", Partitions: []Partition{{Number: 1, Kind: "ext4", Name: "Linux filesystem"}, {Number: 2, Kind: "ext4", Name: "root"}}}
	root, err := l.Root(0)
	require.NoError(t, err)
	assert.Equal(t, 2, root.Number)
}
