package diskaudit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// Work is what a program does with the file systems of a raw disk that it may change. The
// program's function for Child does the work, with the root of the disk and the input.
type Work struct {
	Disk *os.File
	// Layout is the disk's, and Roots are the numbers of the partitions that can be the
	// root.
	Layout *disk.Layout
	Roots  []disk.Partition
	// Grown is the new place of the root partition, if the disk has grown.
	Grown disk.Range
	// Make is the program that makes the file system of the only root, with arguments
	// before the device, or nil. The work then gets this file system alone, and empty.
	Make  []string
	Input any
	// Folder is a folder or a connection that the work uses as WorkFolder or WorkFile: the
	// process of the work may see another folder at the path of this one.
	Folder *os.File
	// Program is a file that the work uses as the file Program, or nil.
	Program *os.File
	// Progress gets what the work writes to its standard error.
	Progress io.Writer
}

// Run mounts all file systems of the disk, does the work and unmounts them. It decodes
// the work's answer into output, and returns notes for a person.
func (w Work) Run(ctx context.Context, output any) (notes []string, err error) {
	if err := Ready(); err != nil {
		return nil, err
	}
	input, err := json.Marshal(w.Input)
	if err != nil {
		return nil, err
	}
	t := task{
		copy: w.Disk, Work: input, folder: w.Folder, program: w.Program, errOut: w.Progress,
		Grown: w.Grown.Length > 0, Make: w.Make,
	}
	for _, p := range w.Roots {
		t.Roots = append(t.Roots, p.Number)
	}
	for _, p := range w.Layout.All() {
		if t.Grown && slices.Contains(t.Roots, p.Number) {
			p.Range = w.Grown
		}
		if len(p.Extents) > 1 {
			p.Elsewhere = "it lies in several places of the disk, which only an audit can read"
		}
		t.Parts = append(t.Parts, source{p, childCopy, true})
	}
	a, err := child(ctx, t)
	if err != nil {
		return nil, err
	}
	return a.Notes, json.Unmarshal(a.Work, output)
}

// work does the work in the child.
func (t task) work(ctx context.Context, do Worker) (answer, error) {
	m := t.machine()
	defer m.close()
	if err := m.prepare(); err != nil {
		return answer{}, err
	}
	if t.Grown {
		if err := m.growExt(ctx); err != nil {
			return answer{}, fmt.Errorf("growing the root file system: %w", err)
		}
	}
	if err := m.openWork(ctx); err != nil {
		return answer{}, err
	}
	if t.Grown {
		if err := grow(m.folder, m.root); err != nil {
			return answer{}, fmt.Errorf("growing the %s file system: %w", m.root.Kind, err)
		}
	}
	var err error
	if m.answer.Work, err = do(ctx, m.folder, t.Work); err != nil {
		return answer{}, err
	}
	if err := m.sync(); err != nil {
		return answer{}, fmt.Errorf("writing the file systems: %w; the folder of the disk image may be full", err)
	}
	m.trim()
	written := slices.Collect(maps.Keys(m.at))
	if err := m.unmount(); err != nil {
		return answer{}, fmt.Errorf("writing the file systems: %w", err)
	}
	return m.answer, m.check(ctx, written)
}

// sync writes the mounted file systems to the disk. The kernel reports here what it could
// not write earlier.
func (m *machine) sync() error {
	for _, folder := range m.at {
		f, err := os.Open(folder)
		if err == nil {
			err = errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkers are the programs that check an unmounted file system, by kind.
var checkers = map[string][]string{
	"ext2": {"e2fsck", "-fn"}, "ext3": {"e2fsck", "-fn"}, "ext4": {"e2fsck", "-fn"}, "xfs": {"xfs_repair", "-n"},
	"btrfs": {"btrfs", "check", "--readonly"}, disk.KindVFAT: {"fsck.vfat", "-n"},
}

// check checks the file systems that were mounted.
func (m *machine) check(ctx context.Context, numbers []int) error {
	again, err := os.OpenFile(childCopy, os.O_RDWR, 0) // unmount has closed the devices
	if err != nil {
		return err
	}
	m.devices, m.files = map[int]*os.File{}, map[string]*os.File{childCopy: again}
	slices.Sort(numbers)
	for _, number := range numbers {
		p := m.part(number)
		checker := checkers[p.Kind]
		if checker == nil {
			continue
		}
		if _, err := exec.LookPath(checker[0]); err != nil {
			m.note("the %s file system of partition %s was not checked: this machine has no %s", p.Kind, p, checker[0])
			continue
		}
		device, err := m.device(p)
		if err != nil {
			return err
		}
		if err := run(ctx, checker[0], append(checker[1:], device.Name())...); err != nil {
			return fmt.Errorf("checking the %s file system of partition %s after the work: %w", p.Kind, p, err)
		}
	}
	return nil
}

// openWork mounts what the work gets.
func (m *machine) openWork(ctx context.Context) error {
	if m.Make != nil {
		device, err := m.device(m.part(m.Roots[0]))
		if err != nil {
			return err
		}
		if err := run(ctx, m.Make[0], append(m.Make[1:], device.Name())...); err != nil {
			return fmt.Errorf("making the root file system: %w", err)
		}
		return m.mountRoot()
	}
	h, err := m.open()
	if err != nil {
		return err
	}
	if len(m.answer.Unchecked) > 0 { // programs would write to the wrong file system
		err = errors.New(strings.Join(m.answer.Unchecked, "; "))
	}
	return errors.Join(err, h.Close())
}

func run(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		text := strings.TrimSpace(string(out))
		if len(text) > 1000 { // a damaged file system can have thousands of faults
			text = strings.ToValidUTF8(text[:1000], "") + "…"
		}
		return fmt.Errorf("%s: %w: %s", program, err, text)
	}
	return nil
}

// trim makes the free space of the mounted file systems holes of the disk's file. What
// knows no discard stays as large as it is.
func (m *machine) trim() {
	for _, folder := range m.at {
		if h, err := host.Mounted(folder); err == nil {
			_, _ = h.Trim("/")
			h.Close()
		}
	}
}

// growExt gives ext2, ext3 or ext4 all of its partition before the mount: a mounted one
// grows only with a capability that many containers lack.
func (m *machine) growExt(ctx context.Context) error {
	p := m.part(m.Roots[0])
	if !strings.HasPrefix(p.Kind, "ext") {
		return nil
	}
	const program = "resize2fs"
	if _, err := exec.LookPath(program); err != nil {
		return fmt.Errorf("this machine has no %s: install e2fsprogs, or leave the size of the disk out", program)
	}
	device, err := m.device(p)
	if err != nil {
		return err
	}
	// The image of a running machine has changes in its journal, which would undo the growth.
	err = run(ctx, "e2fsck", "-p", device.Name())
	var exit *exec.ExitError
	if corrected := errors.As(err, &exit) && exit.ExitCode() == 1; err != nil && !corrected {
		return err
	}
	return run(ctx, program, "-f", device.Name()) // -f: a whole check follows after the work
}

// The requests with which a mounted file system grows. Linux: fs/xfs/libxfs/xfs_fs.h and
// include/uapi/linux/btrfs.h.
const (
	xfsGeometry = 0x80705864
	xfsGrow     = 0x4010586e
	btrfsResize = 0x50009403
)

// grow gives a mounted file system all of its partition.
func grow(folder string, p source) error {
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	ask := func(request uintptr, argument unsafe.Pointer) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), request, uintptr(argument)); errno != 0 {
			return errno
		}
		return nil
	}
	switch p.Kind {
	case "ext4", "ext3", "ext2": // growExt has done it
		return nil
	case "xfs":
		var now struct {
			block, _, _, _, _, _, _, inodes uint32
			blocks                          uint64
			_                               [9]uint64
		}
		if err := ask(xfsGeometry, unsafe.Pointer(&now)); err != nil {
			return err
		}
		wanted := struct {
			blocks uint64
			inodes uint32 // the share of the space that inodes can have, in percent
		}{uint64(p.Length) / uint64(now.block), now.inodes}
		return ask(xfsGrow, unsafe.Pointer(&wanted))
	case "btrfs":
		wanted := struct {
			_    int64
			name [4088]byte
		}{}
		copy(wanted.name[:], "max")
		return ask(btrfsResize, unsafe.Pointer(&wanted))
	}
	return fmt.Errorf("only ext4, XFS and btrfs can grow; leave the size of the disk out")
}
