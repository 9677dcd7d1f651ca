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
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// The kinds of content that the plans treat differently.
const (
	xfs           = "xfs"
	ext4          = "ext4"
	arrayMember   = "a member of an array"
	somethingElse = "unknown content"
)

// content describes a device's content. The name is one of the kinds above or the
// name of a signature; an empty name means an empty device.
type content struct {
	name string
	// uuid identifies the file system, or the array of a member.
	uuid string
	// array is the array's name as mdadm prints it, HOST:NAME.
	array string
}

func refusal(device string, c content) error {
	return fmt.Errorf("%s holds %s; clear the disk with blkdiscard --zeroout if its content is not needed", device,
		c.name)
}

// probed is the size of the part that is read at a device's beginning and at its
// end, in bytes. All superblocks lie in these parts. Those of file systems, partition
// tables and volume managers are at the beginning. Those of older arrays and ZFS, and
// the copy of a partition table, are at the end.
const probed = 1 << 20

// signature is a text at a fixed offset that identifies a kind of content.
type signature struct {
	at    int64
	magic string
	name  string
}

// mdMagic begins every superblock of an array.
const mdMagic = "\xfc\x4e\x2b\xa9"

// The offsets of an array's superblock, by version.
const (
	md11 = 0
	md12 = 0x1000
)

// atBeginning returns the signatures at a device's beginning. Source: libblkid.
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

// atEnd returns the signatures of array superblocks (version 0.90 and 1.0) at the
// end of a device of this size. Such a device may begin with a file system that is
// on the array.
func atEnd(size int64) []signature {
	return []signature{
		{size&^0xffff - 0x10000, mdMagic, arrayMember},
		{(size/512 - 16) &^ 7 * 512, mdMagic, arrayMember},
	}
}

// probe identifies a device's content by its beginning and end. This costs less than
// running blkid, and also finds content without a known signature.
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

// read reads the probed part of a device from an offset on.
func read(in afero.File, from, size int64) ([]byte, error) {
	b := make([]byte, min(probed, size-from))
	_, err := in.ReadAt(b, from)
	return b, err
}

// found returns the names of the signatures in b, the part of a device that begins
// at from.
func found(b []byte, from int64, signatures []signature) []string {
	var names []string
	for _, s := range signatures {
		if at := s.at - from; at >= 0 && at < int64(len(b)) && bytes.HasPrefix(b[at:], []byte(s.magic)) {
			names = append(names, s.name)
		}
	}
	return names
}

// identify returns the content of a device with these signatures.
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
		c.uuid = show.UUID(at(head, 32, 16))
	case c.name == ext4:
		c.uuid = show.UUID(at(head, 0x468, 16))
	case c.name == arrayMember && len(found(head, 0, []signature{{md12, mdMagic, arrayMember}})) > 0:
		c.uuid = show.UUID(at(head, md12+16, 16))
		c.array = strings.TrimRight(string(at(head, md12+32, 32)), "\x00")
	}
	return c
}

// at returns length bytes of b, padded with zeros after its end.
func at(b []byte, from, length int) []byte {
	piece := make([]byte, length)
	if from < len(b) {
		copy(piece, b[from:])
	}
	return piece
}

// preferred returns XFS if mkfs.xfs is installed, as on Amazon's images, otherwise
// ext4.
func preferred(h *host.Host) string {
	if h.HasCommand("mkfs.xfs") || !h.IsLive() {
		return xfs
	}
	return ext4
}

// mkfs returns the command that creates the file system. The stripe unit of the XFS
// log is set, because the default is the array's 512 KiB chunk and the log allows
// 256 KiB at most.
func mkfs(c content, device string) []string {
	if c.name == xfs {
		return []string{"mkfs.xfs", "-l", "su=8b", "-m", "uuid=" + c.uuid, device}
	}
	return []string{"mkfs.ext4", "-q", "-U", c.uuid, device}
}
