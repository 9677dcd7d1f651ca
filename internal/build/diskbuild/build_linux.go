package diskbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Run builds the disk. It decodes the answer of the work into output. If passed then
// returns false, the file is not written. The notes are for a person.
func (b Build) Run(ctx context.Context, output any, passed func() bool) (notes []string, err error) {
	if err := b.Ready(); err != nil {
		return nil, err
	}
	work := diskaudit.Work{Folder: b.Folder, Program: b.Program, Input: b.Input, Progress: b.Progress}
	if work.Disk, err = unnamed(filepath.Dir(b.Image)); err != nil {
		return nil, fmt.Errorf("making the disk image: %w", err)
	}
	defer work.Disk.Close()
	if err := b.prepare(ctx, &work); err != nil {
		return nil, err
	}
	if notes, err = work.Run(ctx, output); err != nil || !passed() {
		return notes, err
	}
	if err := punch(work.Disk); err != nil {
		return notes, fmt.Errorf("trimming the disk: %w", err)
	}
	if err := b.keep(ctx, work.Disk); err != nil {
		return notes, fmt.Errorf("writing %s: %w", b.Image, err)
	}
	return notes, nil
}

// prepare makes the disk before the work.
func (b Build) prepare(ctx context.Context, work *diskaudit.Work) error {
	root, err := openRoot(b.File)
	if err != nil {
		return err
	}
	if root != nil {
		defer root.Close()
		if work.Layout, err = b.makeDisk(ctx, root, work.Disk); err != nil {
			return fmt.Errorf("making a disk of %s: %w", b.File, err)
		}
		work.Roots, err = work.Layout.Roots(b.Partition)
		return err
	}
	if b.FileSystem != "" {
		return errFileSystem
	}
	base, err := disk.Open(b.File)
	if err != nil {
		return err
	}
	defer base.Close()
	work.Layout = base.Layout
	if work.Roots, err = work.Layout.Roots(b.Partition); err != nil {
		return err
	}
	if err := copyDisk(ctx, base, work.Disk); err != nil {
		return fmt.Errorf("copying %s: %w", b.File, err)
	}
	return b.grow(base.Size(), work)
}

// punch makes free space of the disk holes of its file. Linux does not discard all: XFS
// leaves out what was freed shortly before.
func punch(made *os.File) error {
	layout, err := disk.ReadLayout(made)
	if err != nil {
		return err
	}
	for _, r := range layout.Free {
		err := unix.Fallocate(int(made.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, r.Offset, r.Length)
		if errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grow makes the disk as large as the build wants it.
func (b Build) grow(size int64, w *diskaudit.Work) (err error) {
	wanted := int64(b.Size) << 30
	if wanted == 0 || wanted == size {
		return nil
	}
	if len(w.Roots) > 1 {
		return disk.SeveralRoots(w.Roots)
	}
	w.Grown, err = w.Layout.Grow(w.Disk, w.Roots[0].Number, wanted)
	return err
}

// unnamed makes a file that ends with the processes that have it open.
func unnamed(folder string) (*os.File, error) {
	fd, err := unix.Open(folder, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("the folder %s: %w", folder, err)
	}
	return os.NewFile(uintptr(fd), folder), nil
}

// copyDisk copies what the base uses. Free space is left out.
func copyDisk(ctx context.Context, from *disk.Image, to *os.File) error {
	if err := to.Truncate(from.Size()); err != nil {
		return err
	}
	block := make([]byte, disk.BlockSize)
	for n := range from.Layout.Blocks() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, err := from.Block(n, block)
		if err != nil {
			return err
		}
		if at := n * disk.BlockSize; data {
			_, err = to.WriteAt(block[:min(disk.BlockSize, from.Size()-at)], at)
		}
		if err != nil {
			return err
		}
	}
	return from.Check()
}

// keep gives the disk its name and format.
func (b Build) keep(ctx context.Context, made *os.File) error {
	temp, err := os.MkdirTemp(filepath.Dir(b.Image), ".eksnode-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	name := filepath.Join(temp, "disk")
	if b.isQcow2() {
		err := onDisk(ctx, made, nil, converter, "convert", "-f", "raw", "-O", "qcow2", thatDisk, name)
		if err != nil {
			return err
		}
	} else if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", made.Fd()), unix.AT_FDCWD, name,
		unix.AT_SYMLINK_FOLLOW); err != nil {
		return err
	}
	kept, err := os.Open(name)
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := kept.Sync(); err != nil {
		return err
	}
	if b.Force {
		return os.Rename(name, b.Image)
	}
	if err = os.Link(name, b.Image); errors.Is(err, fs.ErrExist) {
		return errors.New("another program has made this file since the start; name another file")
	}
	return err
}

// converter writes qcow2.
const converter = "qemu-img"

// Ready checks the options, and whether this machine can build the disk.
func (b Build) Ready() error {
	errs := []error{b.Validate(), diskaudit.Ready()}
	if b.isQcow2() {
		if _, err := exec.LookPath(converter); err != nil {
			errs = append(errs, fmt.Errorf("writing qcow2 needs %s: install it (Debian: qemu-utils, Fedora: "+
				"qemu-img), or name the disk image .raw", converter))
		}
	}
	if info, err := os.Stat(filepath.Dir(b.Image)); err != nil || !info.IsDir() {
		errs = append(errs, fmt.Errorf("there is no folder %s for the disk image", filepath.Dir(b.Image)))
	}
	switch info, err := os.Lstat(b.Image); {
	case err == nil && !info.Mode().IsRegular():
		errs = append(errs, fmt.Errorf("%s is not a regular file; name a new file", b.Image))
	case err == nil && !b.Force:
		replace := surface.Words{HCL: "packer build -force", Flags: "--force"}
		errs = append(errs, surface.Errorf("%s exists; name another file, or replace this one with %v", b.Image,
			replace))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
