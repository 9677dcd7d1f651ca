package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// disk is a file system in a file, and where it is mounted.
type disk struct {
	kind    string // ext4 or xfs
	file    string
	point   string
	mounted bool
}

// newDisk makes a file system with room for so many files.
func newDisk(ctx context.Context, folder, kind string, files int) (*disk, error) {
	d := &disk{kind: kind, file: filepath.Join(folder, kind+".img"), point: filepath.Join(folder, kind)}
	if err := os.MkdirAll(d.point, 0o755); err != nil {
		return nil, err
	}
	mib := 384 + files*7/1000 // a block and an inode each, folders, the journal
	make := []string{"mkfs.xfs", "-q", "-f", d.file}
	if kind == "ext4" {
		make = []string{"mke2fs", "-q", "-F", "-t", "ext4", "-N", fmt.Sprint(files*2 + 10000), d.file}
	}
	if err := command(ctx, "truncate", "-s", fmt.Sprintf("%dM", mib), d.file); err != nil {
		return nil, err
	}
	return d, command(ctx, make[0], make[1:]...)
}

func (d *disk) mount(ctx context.Context) error {
	// A copy of an XFS has the identity of its origin.
	options := "loop"
	if d.kind == "xfs" {
		options += ",nouuid"
	}
	err := command(ctx, "mount", "-t", d.kind, "-o", options, d.file, d.point)
	d.mounted = err == nil
	return err
}

func (d *disk) unmount() error {
	if !d.mounted {
		return nil
	}
	err := command(context.Background(), "umount", d.point)
	d.mounted = err != nil
	return err
}

// remove takes the disk away.
func (d *disk) remove() error {
	if err := d.unmount(); err != nil {
		return err
	}
	return errors.Join(os.RemoveAll(d.file), os.RemoveAll(d.file+".master"), os.Remove(d.point))
}

// keep makes the unmounted disk as it is now the one that restore brings back.
func (d *disk) keep() error { return os.Rename(d.file, d.file+".master") }

// restore makes a new file: mount would find an old one's loop device, which
// may not be gone yet, with what it remembers of the disk.
func (d *disk) restore(ctx context.Context) error {
	if err := os.RemoveAll(d.file); err != nil {
		return err
	}
	return command(ctx, "cp", "--sparse=always", d.file+".master", d.file)
}

func command(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
