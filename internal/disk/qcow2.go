package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
	"github.com/lima-vm/go-qcow2reader/image/qcow2"
	"github.com/lima-vm/go-qcow2reader/log"
)

// isQcow2 reports whether a file is qcow2. refuse has seen version 1.
func isQcow2(r io.ReaderAt) bool { return has(r, 0, qcow2.Magic) }

// header has the fields of a qcow2 header that decide whether the image can be
// read. The source is qemu's docs/interop/qcow2.
type header struct {
	version, clusterBits, crypt, l1Size uint32
	size, l1, incompatible              uint64
}

// openQcow2 checks the image's header and tables, and opens it. length is the
// number of bytes of the file r.
func (d *Image) openQcow2(r io.ReaderAt, length int64) error {
	h, err := readHeader(r, d.path)
	if err != nil {
		return err
	}
	if d.data, err = h.allocated(r, length, d.path); err != nil {
		return err
	}
	prepareLibrary()
	image, err := qcow2.Open(r, nil)
	if err == nil {
		err = image.Readable()
	}
	if err != nil {
		return fmt.Errorf("reading the qcow2 header: %w", err)
	}
	d.size, d.reader = int64(h.size), image
	return nil
}

// readHeader reads the header and refuses what cannot be read right.
func readHeader(r io.ReaderAt, path string) (header, error) {
	p, err := bytesAt(r, 0, 72)
	if err != nil {
		return header{}, fmt.Errorf("the qcow2 image is truncated: %w in the header", err)
	}
	if err := refuseOthers(r, "qcow2", "qcow2 image"); err != nil {
		return header{}, err
	}
	be := binary.BigEndian
	h := header{
		version: be.Uint32(p[4:]), clusterBits: be.Uint32(p[20:]), crypt: be.Uint32(p[32:]), l1Size: be.Uint32(p[36:]),
		size: be.Uint64(p[24:]), l1: be.Uint64(p[40:]),
	}
	if h.version >= 3 {
		if p, err = bytesAt(r, 72, 32); err != nil {
			return header{}, fmt.Errorf("the qcow2 image is truncated: %w in the header", err)
		}
		h.incompatible = be.Uint64(p)
	}
	return h, h.refuse(path)
}

// refuse returns why an image with this header cannot be read.
func (h header) refuse(path string) error {
	flat := convert("qcow2", path)
	bit := func(n int) bool { return h.incompatible>>n&1 == 1 }
	switch {
	case h.version != 2 && h.version != 3:
		return fmt.Errorf("the version %d of qcow2 is not supported; convert the image: %s", h.version, flat)
	case h.crypt != 0:
		return fmt.Errorf("the qcow2 image is encrypted; convert the image with its secret: qemu-img convert "+
			"--object secret,id=s,file=PASSWORD_FILE --image-opts "+
			"driver=qcow2,file.filename=%s,encrypt.key-secret=s -O raw disk.raw", quoted(path))
	case bit(qcow2.IncompatibleFeaturesCorruptBit):
		return fmt.Errorf("the qcow2 image is marked as corrupt; repair the image: qemu-img check -r all %s",
			quoted(path))
	case bit(qcow2.IncompatibleFeaturesDirtyBit):
		return fmt.Errorf("the qcow2 image is marked as dirty: a process still writes to the image, or crashed; "+
			"shut the machine down, or repair the image: qemu-img check -r all %s", quoted(path))
	case bit(qcow2.IncompatibleFeaturesExtendedL2EntriesBit):
		return fmt.Errorf("extended L2 entries in a qcow2 image are not supported; convert the image: %s", flat)
	case bits.Len64(h.incompatible) > qcow2.IncompatibleFeaturesExtendedL2EntriesBit+1:
		return fmt.Errorf("the incompatible features %#x of the qcow2 image are not supported; convert the image: %s",
			h.incompatible, flat)
	case h.clusterBits < 9 || h.clusterBits > 21:
		return fmt.Errorf("the qcow2 header is damaged: clusters of 2^%d bytes; qemu makes clusters from 2^9 to "+
			"2^21 bytes", h.clusterBits)
	case h.size == 0:
		return errors.New("the qcow2 image has a disk of 0 bytes")
	case h.size > mostGiB*gib:
		return fmt.Errorf("the qcow2 image has a disk of %d bytes; an EBS volume has at most %d GiB", h.size, mostGiB)
	}
	return nil
}

const (
	// offsets are the bits of an L1 or L2 entry that hold an offset.
	offsets    = 0x00fffffffffffe00
	compressed = 1 << 62
	readsZero  = 1
)

// allocated lists the parts of the disk that the file has. It returns an error if
// one of them lies after the file's end.
func (h header) allocated(r io.ReaderAt, length int64, path string) ([]Range, error) {
	cluster := int64(1) << h.clusterBits
	perTable := cluster * (cluster / 8)
	tables := (int64(h.size) + perTable - 1) / perTable
	truncated := func(what string, off int64) error {
		return fmt.Errorf("the qcow2 image is truncated or damaged: %s at byte %d, but the file has %d bytes; copy "+
			"the file again, and check it: qemu-img check %s", what, off, length, quoted(path))
	}
	// Each table has a cluster of its own, so the file limits their number.
	if int64(h.l1Size) < tables || tables > length/8 || tables > 4<<20 {
		return nil, fmt.Errorf("the qcow2 image is damaged: an L1 table of %d entries for a disk of %d bytes",
			h.l1Size, h.size)
	}
	if h.l1 > uint64(length) || int64(h.l1)+int64(h.l1Size)*8 > length {
		return nil, truncated("the L1 table ends", int64(min(h.l1, 1<<62))+int64(h.l1Size)*8)
	}
	l1, err := bytesAt(r, int64(h.l1), int(tables)*8)
	if err != nil {
		return nil, fmt.Errorf("reading the L1 table: %w", reason(err))
	}
	m := clusters{size: cluster, disk: int64(h.size), length: length, bits: h.clusterBits, truncated: truncated}
	var found int64
	for i := range tables {
		off := int64(binary.BigEndian.Uint64(l1[i*8:]) & offsets)
		if off == 0 {
			continue
		}
		if off > length-cluster {
			return nil, truncated("an L2 table ends", off+cluster)
		}
		if found++; found*cluster > length {
			return nil, errors.New("the qcow2 image is damaged: several L1 entries have the same L2 table; check " +
				"the image: qemu-img check " + quoted(path))
		}
		l2, err := bytesAt(r, off, int(cluster))
		if err != nil {
			return nil, fmt.Errorf("reading an L2 table: %w", reason(err))
		}
		if err := m.table(l2, i*perTable); err != nil {
			return nil, err
		}
	}
	return m.data.list, nil
}

// clusters collects the clusters that the file has.
type clusters struct {
	size, disk, length int64
	bits               uint32
	truncated          func(what string, off int64) error
	data               extents
}

// table adds the clusters of an L2 table. The first cluster is at byte start of
// the disk.
func (m *clusters) table(l2 []byte, start int64) error {
	for i := int64(0); i < int64(len(l2)/8) && start+i*m.size < m.disk; i++ {
		entry := binary.BigEndian.Uint64(l2[i*8:])
		if entry&compressed != 0 {
			// The length is in sectors of 512 bytes, and the last one may be
			// cut off at the end of the file.
			low := 62 - (m.bits - 8)
			off := int64(entry & (1<<low - 1))
			if sectors := int64(entry &^ (3 << 62) >> low); off == 0 || off/512*512+sectors*512 >= m.length {
				return m.truncated("a compressed cluster ends", off/512*512+(sectors+1)*512)
			}
		} else {
			off := int64(entry & offsets)
			if entry&readsZero != 0 || off == 0 {
				continue
			}
			if off > m.length-m.size && !m.tail(off, start+i*m.size) {
				return m.truncated("a cluster ends", off+m.size)
			}
		}
		from := start + i*m.size
		m.data.add(from, min(m.size, m.disk-from))
	}
	return nil
}

// tail reports whether the file has all bytes of the disk's last cluster: qemu
// does not write the rest of this cluster.
func (m *clusters) tail(off, at int64) bool {
	return at+m.size > m.disk && off <= m.length-(m.disk-at)
}

// prepareLibrary gives the library decompressors that return whole clusters: it
// decompresses from the start of the cluster for every short read. It also stops
// the library's messages, because readHeader has refused what they are about.
var prepareLibrary = sync.OnceFunc(func() {
	log.SetWarnFunc(nil)
	qcow2.SetDecompressor(qcow2.CompressionTypeZlib, func(r io.Reader) (io.ReadCloser, error) {
		return wholeReads{flate.NewReader(r), func() {}}, nil
	})
	var made sync.Pool // making one for each cluster takes most of the time
	qcow2.SetDecompressor(qcow2.CompressionTypeZstd, func(r io.Reader) (_ io.ReadCloser, err error) {
		z, ok := made.Get().(*zstd.Decoder)
		if !ok {
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(64<<20))
		}
		return wholeReads{z, func() { made.Put(z) }}, errors.Join(err, z.Reset(r))
	})
})

// wholeReads is a decompressor whose Read fills the buffer.
type wholeReads struct {
	from io.Reader
	done func()
}

func (w wholeReads) Read(p []byte) (int, error) { return io.ReadFull(w.from, p) }

func (w wholeReads) Close() error {
	w.done()
	return nil
}
