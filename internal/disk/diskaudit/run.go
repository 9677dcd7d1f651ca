//go:build linux

package diskaudit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// childMark is the environment variable that marks the child process.
const childMark = "EKSNODE_DISK_AUDIT"

// task is what the child reads from its standard input.
type task struct {
	// Parts are all partitions, and Roots the numbers of those that can be the root.
	Parts []source
	Roots []int
	// Spec says what to audit. Without it, the child lists the files.
	Spec *scrub.Spec
	// Whole is that of the audit.
	Whole bool
	// Flags says that errors name flags.
	Flags bool
	// Chosen means that a person named the partition.
	Chosen bool
	// Work is the input of a work, which may write. Grown says that the root partition is
	// larger than its file system.
	Work  json.RawMessage `json:",omitempty"`
	Grown bool
	Make  []string `json:",omitempty"`

	// copy has the parts that need a copy, or is nil. The child gets the file as childCopy.
	copy *os.File
	// folder and program are those of a work, or nil.
	folder, program *os.File
	// errOut gets what the child writes to its standard error, unless it is nil.
	errOut io.Writer
}

// childCopy is the name of the copy in the child: its first file after the standard ones.
const childCopy = "/proc/self/fd/3"

// source is a partition, and the file that has the partition at its offset.
type source struct {
	disk.Partition
	File string
	// Copied is set if the file is a copy, which may be written to.
	Copied bool
}

// answer is what the child writes to its standard output.
type answer struct {
	Report plan.Report
	// Manifest is the image's, or nil.
	Manifest *manifest.Manifest
	// Root is the number of the root partition.
	Root int
	// Unchecked says what could not be audited.
	Unchecked []string
	// Notes are for a person, and change no result.
	Notes []string
	// Work is the output of a work.
	Work json.RawMessage
	// Error says why there is no report.
	Error string
}

// Run mounts the root file system and audits it. The report's machine is the image's.
func (a Audit) Run(ctx context.Context) (plan.Report, error) {
	r, err := a.run(ctx)
	if err != nil {
		return r, fmt.Errorf("auditing the disk image %s: %w", a.Image.Path(), err)
	}
	return r, nil
}

func (a Audit) run(ctx context.Context) (plan.Report, error) {
	t, err := a.task(ctx)
	defer t.close()
	if err != nil {
		return plan.Report{}, err
	}
	t.Spec, t.Whole, t.Flags = &a.Spec, a.Whole, surface.UsesFlags(ctx)
	found, err := child(ctx, t)
	if a.Manifest != nil && found.Manifest != nil {
		*a.Manifest = *found.Manifest
	}
	if err != nil {
		return a.report(found), err
	}
	for _, p := range a.Image.Layout.All() {
		used, err := a.swapped(ctx, p)
		if err != nil {
			return plan.Report{}, err
		}
		if used {
			found.Unchecked = append(found.Unchecked, fmt.Sprintf("partition %s has memory of the machine, which "+
				"can contain secrets; overwrite the partition with zeros and run mkswap, or build the image "+
				"without swap", p))
		}
	}
	r := a.report(found)
	r.Machine.Digest, err = a.Image.Digest(ctx)
	return r, err
}

// task prepares a task for the child. The caller calls close after the child has ended,
// also with an error.
func (a Audit) task(ctx context.Context) (t task, err error) {
	if os.Geteuid() != 0 {
		return t, ErrNeedsRoot
	}
	roots, err := a.Image.Layout.Roots(a.Root)
	if err != nil {
		return t, err
	}
	t.Chosen = a.Root != 0
	for _, p := range roots {
		t.Roots = append(t.Roots, p.Number)
	}
	for _, p := range a.Image.Layout.All() {
		copied := mountable(p) && (p.Dirty || a.Image.Format() == disk.Qcow2 || len(p.Extents) > 1)
		t.Parts = append(t.Parts, source{p, a.Image.Path(), copied})
	}
	if slices.ContainsFunc(t.Parts, func(p source) bool { return p.Copied }) {
		t.copy, err = a.copy(ctx, t.Parts)
	}
	return t, err
}

// close removes the copy.
func (t task) close() {
	if t.copy != nil {
		_ = t.copy.Close() // it was only read
	}
}

// nameless makes a temporary file that ends with the processes that have it open, also
// when they are killed.
func nameless(folder string) (*os.File, error) {
	f, err := os.CreateTemp(folder, "eksnode-audit-")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

// swapHeader is the size of the largest page: the first page of a swap area is mkswap's.
const swapHeader = 64 << 10

// swapped reports whether a swap partition has been written to.
func (a Audit) swapped(ctx context.Context, p disk.Partition) (bool, error) {
	if p.Kind != disk.KindSwap {
		return false, nil
	}
	block, zeros := make([]byte, disk.BlockSize), make([]byte, disk.BlockSize)
	first := int64(swapHeader)
	for _, r := range extents(p) {
		for at := r.Offset + first; at < r.End() && ctx.Err() == nil; at += disk.BlockSize {
			part := block[:min(disk.BlockSize, r.End()-at)]
			if a.Image.Zero(at, int64(len(part))) {
				continue
			}
			if _, err := a.Image.ReadAt(part, at); err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
			if !bytes.Equal(part, zeros[:len(part)]) {
				return true, nil
			}
		}
		first = 0
	}
	return false, context.Cause(ctx)
}

// extents are the places of a partition or volume on the disk.
func extents(p disk.Partition) []disk.Range {
	if len(p.Extents) > 0 {
		return p.Extents
	}
	return []disk.Range{p.Range}
}

func mountable(p disk.Partition) bool { return p.IsLinux() || p.Kind == disk.KindVFAT }

// report completes the child's report.
func (a Audit) report(from answer) plan.Report {
	r := from.Report
	r.Machine.Root, r.Machine.Disk, r.Machine.Partition = "/", a.Image.Path(), from.Root
	r.Warnings = append(r.Warnings, from.Notes...)
	if len(from.Unchecked) > 0 {
		r.Result = plan.Unknown
		if r.Error != "" {
			r.Error += "; "
		}
		r.Error += strings.Join(from.Unchecked, "; ")
	}
	return r
}

// copy writes the used parts of the partitions that need a copy to a sparse file without
// a name, at their offsets. Volumes that lie in several places follow, each in one.
func (a Audit) copy(ctx context.Context, parts []source) (f *os.File, err error) {
	f, err = nameless(a.Folder)
	end := (a.Image.Size() + disk.BlockSize - 1) / disk.BlockSize * disk.BlockSize
	for i := range parts {
		p := &parts[i]
		if !p.Copied || err != nil {
			continue
		}
		if p.File = childCopy; len(p.Extents) > 1 {
			p.Offset = end
			end = p.End()
		}
		to := p.Offset
		for _, r := range extents(p.Partition) {
			err = errors.Join(err, a.copyPart(ctx, f, r, to))
			to += r.Length
		}
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return f, fmt.Errorf("copying partitions to %s: %w", cmp.Or(a.Folder, os.TempDir()), err)
	}
	return f, nil
}

// copyPart writes the used bytes of a range from the offset to on.
func (a Audit) copyPart(ctx context.Context, f *os.File, r disk.Range, to int64) error {
	block := make([]byte, disk.BlockSize)
	for at := r.Offset; at < r.End() && ctx.Err() == nil; at += disk.BlockSize {
		part := block[:min(disk.BlockSize, r.End()-at)]
		if a.Image.Zero(at, int64(len(part))) || !a.Image.Layout.Used(at, int64(len(part))) {
			continue
		}
		if _, err := a.Image.ReadAt(part, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := f.WriteAt(part, to+at-r.Offset); err != nil {
			return err
		}
	}
	return nil
}

// child runs the task in this program, in a mount namespace of its own.
func child(ctx context.Context, t task) (answer, error) {
	var out bytes.Buffer
	said, err := start(ctx, t, &out)
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	var a answer
	if decoding := json.Unmarshal(out.Bytes(), &a); decoding != nil {
		return answer{}, failed(errors.Join(err, decoding), said)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// start runs the child, and returns what it writes to its standard error.
func start(ctx context.Context, t task, out io.Writer) (said string, err error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	var errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = os.Args[:1]
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), out, &errOut
	if t.errOut != nil {
		cmd.Stderr = t.errOut
	}
	if t.copy != nil {
		cmd.ExtraFiles = []*os.File{t.copy, t.folder, t.program} // childCopy, WorkFolder, Program
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	return strings.TrimSpace(errOut.String()), err
}

// failed is the error of a child that did not answer.
func failed(err error, said string) error {
	return fmt.Errorf("the process that mounts the file system failed: %w: %s", err, said)
}

// Ready returns an error if this process cannot mount a disk. A caller that gets the
// disk from elsewhere asks first.
func Ready() error {
	if os.Geteuid() != 0 {
		return ErrNeedsRoot
	}
	f, err := openLoopControl()
	if err != nil {
		return err
	}
	return f.Close()
}

// openLoopControl opens the device that makes loop devices.
func openLoopControl() (*os.File, error) {
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("making a loop device: %w; a container needs access to loop devices (docker run "+
			"--privileged), and the kernel needs the module loop", err)
	}
	return f, nil
}
