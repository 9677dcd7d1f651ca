package disks

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// The contents that are told apart.
const (
	xfs           = "xfs"
	ext4          = "ext4"
	arrayMember   = "a member of an array"
	somethingElse = "something this program does not know"
)

// filesystem is what a device holds: a name of the above, or "" for nothing.
type filesystem struct{ name, uuid string }

// probed is how much of a device is looked at, in bytes: every superblock that
// is told apart lies there.
const probed = 128 << 10

// probe reads a device's first blocks. A device that is not there yet holds
// nothing. Reading it costs less than running blkid, and is the same on a
// machine whose udev has not looked yet.
func probe(h *host.Host, device string) (filesystem, error) {
	in, err := h.Files.Open(device)
	if errors.Is(err, fs.ErrNotExist) {
		return filesystem{}, nil
	}
	if err != nil {
		return filesystem{}, fmt.Errorf("reading %s: %w", device, err)
	}
	defer in.Close()
	b := make([]byte, probed)
	if _, err := io.ReadFull(in, b); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return filesystem{}, fmt.Errorf("reading %s: %w", device, err)
	}
	switch {
	case bytes.HasPrefix(b, []byte("XFSB")):
		return filesystem{xfs, uuidAt(b, 32)}, nil
	case bytes.Equal(b[0x438:0x43a], []byte{0x53, 0xef}):
		return filesystem{ext4, uuidAt(b, 0x468)}, nil
	case bytes.Equal(b[0x1000:0x1004], []byte{0xfc, 0x4e, 0x2b, 0xa9}): // md's superblock 1.2
		return filesystem{arrayMember, ""}, nil
	case len(bytes.Trim(b, "\x00")) == 0:
		return filesystem{}, nil
	default:
		return filesystem{somethingElse, ""}, nil
	}
}

func uuidAt(b []byte, at int) string {
	u := b[at : at+16]
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
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
func mkfs(f filesystem, device string) []string {
	if f.name == xfs {
		return []string{"mkfs.xfs", "-l", "su=8b", "-m", "uuid=" + f.uuid, device}
	}
	return []string{"mkfs.ext4", "-q", "-U", f.uuid, device}
}
