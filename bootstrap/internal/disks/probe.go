package disks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// The contents that the plans treat differently.
const (
	xfs           = "xfs"
	ext4          = "ext4"
	arrayMember   = "a member of an array"
	somethingElse = "something this program does not know"
)

// content is what a device holds: a name of the above or of a signature, "" for
// nothing.
type content struct {
	name string
	// uuid identifies the file system, or the array that the device belongs to.
	uuid string
	// array is the array's name as mdadm prints it, HOST:NAME.
	array string
}

// refusal is the error about a device whose content must stay.
func refusal(device string, c content) error {
	return fmt.Errorf("%s holds %s; clear it with blkdiscard --zeroout if nothing on it is needed", device, c.name)
}

// probed is how much of a device's beginning and of its end is read, in bytes.
// Every superblock that names a disk's owner lies there: those of file systems,
// partition tables and volume managers at the beginning, those of older arrays,
// ZFS and a partition table's copy at the end.
const probed = 1 << 20

// signature is a text at a fixed place by which content is recognized.
type signature struct {
	at    int64
	magic string
	name  string
}

// mdMagic begins every superblock of an array.
const mdMagic = "\xfc\x4e\x2b\xa9"

// The places of an array's superblock, by its version.
const (
	md11 = 0
	md12 = 0x1000
)

// atBeginning are the signatures at a device's beginning. Source: libblkid.
func atBeginning() []signature {
	const table = "a partition table"
	return []signature{
		{0, "XFSB", xfs},
		{0x438, "\x53\xef", ext4},
		{md11, mdMagic, arrayMember},
		{md12, mdMagic, arrayMember},
		{0x1fe, "\x55\xaa", table},
		{512, "EFI PART", table},
		{4096, "EFI PART", table},
		{0, "LUKS\xba\xbe", "a LUKS header"},
		{512 + 24, "LVM2 001", "an LVM physical volume"},
		{4096 - 10, "SWAPSPACE2", "swap"},
		{65536 - 10, "SWAPSPACE2", "swap"},
		{0x10040, "_BHRfS_M", "btrfs"},
		{0x1018, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", "bcache"},
	}
}

// atEnd are the superblocks of arrays (version 0.90 and 1.0) at the end of a
// device of some size: what lies at its beginning may be a file system on the
// array.
func atEnd(size int64) []signature {
	return []signature{
		{size&^0xffff - 0x10000, mdMagic, arrayMember},
		{(size/512 - 16) &^ 7 * 512, mdMagic, arrayMember},
	}
}

// probe reads a device's beginning and end. Reading them costs less than running
// blkid, and finds content that no program has a signature of.
func probe(h *host.Host, device string) (content, error) {
	in, err := h.Files.Open(device)
	if err != nil {
		return content{}, fmt.Errorf("reading %s: %w", device, err)
	}
	defer in.Close()
	size, err := in.Seek(0, io.SeekEnd)
	if err == nil && size == 0 {
		err = errors.New("the device has no size")
	}
	if err != nil {
		return content{}, fmt.Errorf("reading %s: %w", device, err)
	}
	head, err := read(in, 0, size)
	if err != nil {
		return content{}, fmt.Errorf("reading the beginning of %s: %w", device, err)
	}
	from := max(0, size-probed)
	tail, err := read(in, from, size)
	if err != nil {
		return content{}, fmt.Errorf("reading the end of %s: %w", device, err)
	}
	names := append(found(head, 0, atBeginning()), found(tail, from, atEnd(size))...)
	return identify(head, tail, slices.Compact(names)), nil
}

// read reads what is probed of a device from a place on.
func read(in afero.File, from, size int64) ([]byte, error) {
	b := make([]byte, min(probed, size-from))
	_, err := in.ReadAt(b, from)
	return b, err
}

// found names the signatures in a piece of a device that begins at from.
func found(b []byte, from int64, signatures []signature) []string {
	var names []string
	for _, s := range signatures {
		if at := s.at - from; at >= 0 && at < int64(len(b)) && bytes.HasPrefix(b[at:], []byte(s.magic)) {
			names = append(names, s.name)
		}
	}
	return names
}

// identify says what a device holds whose signatures have these names.
func identify(head, tail []byte, names []string) content {
	blank := len(bytes.Trim(head, "\x00")) == 0 && len(bytes.Trim(tail, "\x00")) == 0
	switch {
	case blank:
		return content{}
	case len(names) == 0:
		return content{name: somethingElse}
	case len(names) > 1:
		return content{name: strings.Join(names, " and ")}
	}
	c := content{name: names[0]}
	switch {
	case c.name == xfs:
		c.uuid = uuidAt(head, 32)
	case c.name == ext4:
		c.uuid = uuidAt(head, 0x468)
	case c.name == arrayMember && len(found(head, 0, []signature{{md12, mdMagic, arrayMember}})) > 0:
		c.uuid = uuidAt(head, md12+16)
		c.array = strings.TrimRight(string(at(head, md12+32, 32)), "\x00")
	}
	return c
}

func uuidAt(b []byte, from int) string {
	u := at(b, from, 16)
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// at is a piece of a device, with zeros behind the end of a short one.
func at(b []byte, from, length int) []byte {
	piece := make([]byte, length)
	if from < len(b) {
		copy(piece, b[from:])
	}
	return piece
}

// preferred is XFS where the machine can make it, as on Amazon's images, and
// ext4 elsewhere.
func preferred(h *host.Host) string {
	if h.HasCommand("mkfs.xfs") || !h.IsLive() {
		return xfs
	}
	return ext4
}

// mkfs makes the file system. XFS would take the array's stripe of 512 KiB for
// its log, which may have 256 KiB at most, so the log's is given.
func mkfs(c content, device string) []string {
	if c.name == xfs {
		return []string{"mkfs.xfs", "-l", "su=8b", "-m", "uuid=" + c.uuid, device}
	}
	return []string{"mkfs.ext4", "-q", "-U", c.uuid, device}
}
