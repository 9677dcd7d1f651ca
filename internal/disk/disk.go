// Package disk reads disk images: raw, qcow2 and fixed VHD. It finds partitions
// and file systems, what the file systems say is free, the root partition, and
// how the disk boots. It never mounts, and only Layout.Grow writes.
//
// The usual order is
//
//	image, err := disk.Open(path)     // refuses other formats, truncated files
//	layout := image.Layout            // partitions, free space, boot mode
//	roots, err := layout.Roots(0)     // what can be the root, or why there is none
//	err = image.Check()               // before the upload, and after it
//	for n := range layout.Blocks() {  // blocks of 512 KiB that travel
//		data, err := image.Block(n, p)
//	}
//
// A volume has whole GiB, so it can be larger than the disk. The rest reads as
// zeros and is free. The GPT's backup header is then not at the end of the
// volume. Firmware and Linux accept that; growpart and `sgdisk -e` move it.
package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
)

// BlockSize is the number of bytes in a block of an EBS snapshot.
const BlockSize = 512 << 10

// Formats of a disk image, as `qemu-img` names them.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
	VHD   = "vpc"
)

const (
	gib = 1 << 30
	// mostGiB is the largest volume of EBS.
	mostGiB = 65536
)

// Image is an open disk image. Its methods may run concurrently.
type Image struct {
	// Layout has the partitions, file systems and boot loaders.
	Layout *Layout

	path   string
	format string
	file   *os.File
	size   int64
	// reader has the disk's bytes, from 0 to size.
	reader io.ReaderAt
	// data lists where the disk may have other bytes than zeros.
	data []Range
	// opened is the file's state at the start.
	opened fs.FileInfo
}

// Open opens a disk image or a block device, and detects its format by its
// content. It refuses every format other than raw, qcow2 and fixed VHD, files
// that are truncated, and files that another process has open for writing. The
// error names the file, the reason, and a command that helps. A file system that
// cannot be understood is no error: its partition travels whole, and
// Partition.Whole says why.
func Open(path string) (*Image, error) {
	d, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the disk image %s: %w", path, err)
	}
	if d.Layout, err = inspect(d, d.size); err != nil {
		d.Close()
		return nil, fmt.Errorf("reading the partitions of the disk image %s: %w", path, err)
	}
	return d, nil
}

func open(path string) (*Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, reason(err)
	}
	device := info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
	switch {
	case info.IsDir():
		return nil, errors.New("a folder is no disk image; give the path of the file in it")
	case !info.Mode().IsRegular() && !device:
		return nil, errors.New("neither a regular file nor a block device")
	}
	file, err := openForReading(path, device)
	if err != nil {
		return nil, reason(err)
	}
	d := &Image{path: path, file: file}
	if err := d.recognize(device); err != nil {
		file.Close()
		return nil, err
	}
	return d, nil
}

// recognize finds the format and fills the fields of d.
func (d *Image) recognize(device bool) error {
	size, err := d.file.Seek(0, io.SeekEnd) // also of a device
	if err != nil {
		return reason(err)
	}
	if size == 0 {
		return errors.New("empty: 0 bytes")
	}
	if !device {
		if err := unused(d.file); err != nil {
			return err
		}
	}
	if d.opened, err = d.file.Stat(); err != nil {
		return reason(err)
	}
	d.format, d.size, d.reader = Raw, size, d.file
	if err := refuse(d.file, size, d.path); err != nil {
		return err
	}
	switch {
	case isQcow2(d.file):
		d.format = Qcow2
		if err := d.openQcow2(d.file, size); err != nil {
			return err
		}
	case !device:
		if d.size, err = withoutFooter(d.file, size, d.path); err != nil {
			return err
		}
		if d.size < size {
			d.format = VHD
		}
		d.data = Written(d.file, d.size)
	default:
		d.data = []Range{{0, size}}
	}
	if d.SizeGiB() > mostGiB {
		return fmt.Errorf("the disk has %d GiB; an EBS volume has at most %d GiB", d.SizeGiB(), mostGiB)
	}
	return nil
}

// Path is the path that Open got.
func (d *Image) Path() string { return d.path }

// Format is Raw, Qcow2 or VHD.
func (d *Image) Format() string { return d.format }

// Size is the number of bytes of the disk. The last sector may be incomplete.
func (d *Image) Size() int64 { return d.size }

// SizeGiB is the size of the smallest volume that holds the disk, from 1 to 65536.
func (d *Image) SizeGiB() int64 { return (d.size + gib - 1) / gib }

// Close closes the file.
func (d *Image) Close() error { return d.file.Close() }

// Check returns an error if the file has changed since Open. Call it before and
// after the disk is read: what was read of a changed file is worthless.
func (d *Image) Check() error {
	now, err := d.file.Stat()
	if err != nil {
		return fmt.Errorf("checking the disk image %s: %w", d.path, reason(err))
	}
	if now.Size() != d.opened.Size() {
		return fmt.Errorf("the size of the disk image %s changed from %d to %d bytes; wait for the program that "+
			"writes this file, then start again", d.path, d.opened.Size(), now.Size())
	}
	if !now.ModTime().Equal(d.opened.ModTime()) {
		return fmt.Errorf("the disk image %s was changed at %s, after it was opened; wait for the program that "+
			"writes this file, then start again", d.path, now.ModTime().UTC().Format(time.RFC3339))
	}
	return nil
}

// ReadAt reads bytes of the disk. Up to the end of the volume of SizeGiB, the
// bytes after the disk are zeros. Holes cost no reads.
func (d *Image) ReadAt(p []byte, off int64) (int, error) {
	volume := d.SizeGiB() * gib
	if off < 0 || off >= volume {
		return 0, io.EOF
	}
	short := int64(len(p)) > volume-off
	if short {
		p = p[:volume-off]
	}
	done := off
	for _, r := range within(d.data, Range{off, int64(len(p))}) {
		clear(p[done-off : r.Offset-off])
		done = r.End()
		part := p[r.Offset-off : done-off]
		if n, err := d.reader.ReadAt(part, r.Offset); n < len(part) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return int(r.Offset-off) + n,
				fmt.Errorf("reading the disk image %s at byte %d: %w", d.path, r.Offset, reason(err))
		}
	}
	clear(p[done-off:])
	if short {
		return len(p), io.EOF
	}
	return len(p), nil
}

// Zero reports whether length bytes at off are zeros without a read: holes of
// the file, and clusters that qcow2 does not have. Other bytes can be zeros, too.
func (d *Image) Zero(off, length int64) bool {
	return len(within(d.data, Range{off, length})) == 0
}

// ReadLayout reads the partitions of a raw disk that the caller is writing.
func ReadLayout(file *os.File) (*Layout, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	l, err := inspect(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("reading the partitions of the new disk: %w", err)
	}
	return l, nil
}

// reason is the error without operation and path, which the caller adds.
func reason(err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		return of.Err
	}
	return err
}

// digestHead is the first line of the text whose SHA-256 is a digest.
const digestHead = "eksnode-disk 1\n"

// Digest identifies the content of a disk in every format, as docs/design/digest.md
// specifies: the SHA-256 of a text that lists the blocks with other bytes than zeros,
// without free space. The result is "sha256:" and 64 hexadecimal digits.
func (d *Image) Digest(ctx context.Context) (string, error) {
	sums := make([]*[sha256.Size]byte, (d.size+BlockSize-1)/BlockSize)
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		group.Go(func() error {
			block := make([]byte, BlockSize)
			for n := first; n < len(sums) && ctx.Err() == nil; n += workers {
				data, err := d.Block(int64(n), block)
				if err != nil {
					return err
				}
				if data {
					sum := sha256.Sum256(block)
					sums[n] = &sum
				}
			}
			return context.Cause(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("computing the digest of the disk image %s: %w", d.path, err)
	}
	all := sha256.New()
	io.WriteString(all, digestHead)
	for n, sum := range sums {
		if sum != nil {
			fmt.Fprintf(all, "%d %x\n", n, *sum)
		}
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), nil
}

// Block reads a block of BlockSize bytes. Free space is zeros. The result says whether
// the block has other bytes than zeros.
func (d *Image) Block(n int64, into []byte) (data bool, err error) {
	at := n * BlockSize
	if d.Zero(at, BlockSize) || !d.Layout.Used(at, BlockSize) {
		clear(into)
		return false, nil
	}
	if _, err := d.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	d.Layout.ZeroFree(into, at)
	return !allZero(into), nil
}
