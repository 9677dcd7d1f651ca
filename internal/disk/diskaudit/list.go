//go:build linux

package diskaudit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// listFailed is the child's exit code when its standard error has the reason.
const listFailed = 3

// List mounts the root file system and lists its files, with their packages. With a
// number in Root, the file system may be another one than the root of a Linux system.
// The caller closes the list.
func (a Audit) List(ctx context.Context) (*Listing, error) {
	l, err := a.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the files of the disk image %s: %w", a.Image.Path(), err)
	}
	return l, nil
}

func (a Audit) list(ctx context.Context) (*Listing, error) {
	t, err := a.task(ctx)
	defer t.close()
	if err != nil {
		return nil, err
	}
	l := &Listing{path: a.Image.Path()}
	if l.file, err = nameless(a.Folder); err != nil { // a list of names can be large
		return nil, fmt.Errorf("making a file for the list: %w", err)
	}
	if err = l.fill(ctx, t); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// fill runs the child, which writes the list.
func (l *Listing) fill(ctx context.Context, t task) error {
	said, err := start(ctx, t, l.file)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.ExitCode() == listFailed:
		return errors.New(said)
	case err != nil:
		return failed(err, said)
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	l.in = gob.NewDecoder(bufio.NewReader(l.file))
	var first record
	if err := l.in.Decode(&first); err != nil || first.Head == nil {
		return failed(err, said)
	}
	l.Head = *first.Head
	return nil
}

func (t task) list(ctx context.Context, to io.Writer) error {
	m := t.machine()
	if err := m.prepare(); err != nil {
		return err
	}
	h, err := m.open()
	if err != nil {
		return err
	}
	head := Head{Root: Root{Partition: m.root.Number, FileSystem: m.root.Kind}}
	for _, note := range slices.Concat(m.answer.Unchecked, m.answer.Notes) {
		head.Notes = append(head.Notes, strings.ReplaceAll(note, "audited", "compared"))
	}
	buffered := bufio.NewWriter(to)
	err = write(ctx, h, head, gob.NewEncoder(buffered))
	return errors.Join(err, buffered.Flush(), h.Close(), m.unmount())
}

// unmount unmounts everything. Another process may mount a copy of these file systems
// next, and the kernel might unmount only after the end of this process.
func (m *machine) unmount() error {
	m.close()
	for _, at := range slices.Backward(m.mounts) {
		if err := unmount(at); err != nil && !errors.Is(err, unix.EINVAL) { // nothing is mounted there any more
			return err
		}
	}
	return nil
}

func write(ctx context.Context, h *host.Host, head Head, out *gob.Encoder) (err error) {
	if head.Packages, err = packages.ReadInstalled(ctx, h); err != nil {
		return err
	}
	owners, err := packages.ReadOwners(ctx, h)
	if err != nil {
		return err
	}
	if err := out.Encode(record{Head: &head}); err != nil {
		return err
	}
	known := sums{}
	_, err = h.Files.Walk(ctx, "/", "/", func(e host.Entry, err error) error {
		if err != nil {
			return err
		}
		found, err := entry(ctx, e, known)
		if err != nil {
			return err
		}
		found.Owner = owners.Of(found.Path)
		return out.Encode(record{Entry: &found})
	})
	if err != nil {
		return err
	}
	return out.Encode(record{})
}

// kinds are the kinds of files by the bits of stat(2).
var kinds = map[uint32]string{
	unix.S_IFREG: File, unix.S_IFDIR: Directory, unix.S_IFLNK: "link", unix.S_IFIFO: "FIFO", unix.S_IFSOCK: "socket",
	unix.S_IFCHR: "character device", unix.S_IFBLK: "block device",
}

// entry describes a file.
func entry(ctx context.Context, e host.Entry, known sums) (Entry, error) {
	st := e.Sys().(*unix.Stat_t)
	kind, ok := kinds[st.Mode&unix.S_IFMT]
	if !ok {
		return Entry{}, fmt.Errorf("describing %s: the type %#o is not known", e.Path, st.Mode&unix.S_IFMT)
	}
	found := Entry{Path: e.Path, Kind: kind, Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid}
	if kind != Directory {
		found.Links = uint64(st.Nlink)
	}
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		found.Size = st.Size
		found.Sum, err = known.of(ctx, e, st)
	case unix.S_IFLNK:
		found.Target, err = e.Readlink()
	case unix.S_IFCHR, unix.S_IFBLK:
		found.Device = fmt.Sprintf("%d:%d", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)))
	}
	if err == nil {
		found.Attributes, err = e.ExtendedAttributes()
	}
	return found, err
}

// sums are the sums of files with several hard links, so that each is read once.
type sums map[inode][sha256.Size]byte

type inode struct{ device, number uint64 }

func (s sums) of(ctx context.Context, e host.Entry, st *unix.Stat_t) ([sha256.Size]byte, error) {
	key := inode{uint64(st.Dev), st.Ino}
	if sum, known := s[key]; known && st.Nlink > 1 {
		return sum, nil
	}
	f, err := e.Open()
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	defer f.Close()
	var sum [sha256.Size]byte
	if st.Size > PlainMost {
		sum, err = sparseSum(ctx, f, st.Size)
	} else {
		all := sha256.New()
		_, err = io.Copy(all, expand.Until(ctx, f))
		all.Sum(sum[:0])
	}
	if err == nil && st.Nlink > 1 {
		s[key] = sum
	}
	return sum, err
}

// part is the size of the parts of a large file.
const part = 64 << 10

// sparseSum is the SHA-256 of the parts of a file that are not zeros, with their
// places. Holes are not read, and count as the zeros that they are.
func sparseSum(ctx context.Context, f *os.File, size int64) (sum [sha256.Size]byte, err error) {
	all, data, zeros := sha256.New(), make([]byte, part), make([]byte, part)
	at := int64(0)
	for _, r := range disk.Written(f, size) {
		for at = max(at, r.Offset/part*part); at < r.End(); at += part {
			if err := context.Cause(ctx); err != nil {
				return sum, err
			}
			n, err := f.ReadAt(data, at)
			if err != nil && !errors.Is(err, io.EOF) {
				return sum, err
			}
			if !bytes.Equal(data[:n], zeros[:n]) {
				all.Write(binary.BigEndian.AppendUint64(nil, uint64(at)))
				all.Write(data[:n])
			}
		}
	}
	all.Sum(sum[:0])
	return sum, nil
}
