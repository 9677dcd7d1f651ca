//go:build linux

package diskaudit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// childMark is the environment variable that marks the child process.
const childMark = "EKSNODE_DISK_AUDIT"

// task is what the child reads from its standard input.
type task struct {
	// File has the file system from Offset on.
	File           string
	Offset, Length int64
	// Kind is the file system, such as ext4.
	Kind string
	// Folder is the place to mount.
	Folder string
	// Spec says what to audit. Without it, the child lists the files.
	Spec *scrub.Spec
	// Chosen means that a person named the partition.
	Chosen bool
}

// answer is what the child writes to its standard output.
type answer struct {
	Report plan.Report
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
	t, root, remove, err := a.task(ctx)
	if err != nil {
		return plan.Report{}, err
	}
	defer remove()
	t.Spec = &a.Spec
	r, err := child(ctx, t)
	r.Machine.Root, r.Machine.Disk, r.Machine.Partition = "/", a.Image.Path(), root.Number
	for _, p := range a.others(root) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("partition %d (%s %s) was not audited: only the root partition %d was", p.Number, p.Kind, p.Label, root.Number))
	}
	return r, err
}

// task finds the root partition and prepares a task for the child. The caller calls
// remove after the child has ended.
func (a Audit) task(ctx context.Context) (t task, root disk.Partition, remove func(), err error) {
	if os.Geteuid() != 0 {
		return t, root, nil, ErrNeedsRoot
	}
	if root, err = a.Layout.Root(a.Root); err != nil {
		return t, root, nil, err
	}
	folder, err := os.MkdirTemp("", "eksnode-root-")
	if err != nil {
		return t, root, nil, fmt.Errorf("making a folder to mount: %w", err)
	}
	empty := func() { _ = os.Remove(folder) } // the mount was never visible here
	t = task{File: a.Image.Path(), Offset: root.Offset, Length: root.Length, Kind: root.Kind, Folder: folder, Chosen: a.Root != 0}
	if a.Image.Format() != disk.Qcow2 {
		return t, root, empty, nil
	}
	copied, err := a.copy(ctx, root)
	if err != nil {
		empty()
		return t, root, nil, err
	}
	t.File, t.Offset = copied, 0
	return t, root, func() {
		empty()
		_ = os.Remove(copied)
	}, nil
}

// others are the Linux file systems that are not the root.
func (a Audit) others(root disk.Partition) []disk.Partition {
	var all []disk.Partition
	for _, p := range a.Layout.Partitions {
		if _, linux := options[p.Kind]; linux && p.Number != root.Number {
			all = append(all, p)
		}
	}
	return all
}

// copy writes the used part of a partition to a sparse file.
func (a Audit) copy(ctx context.Context, p disk.Partition) (path string, err error) {
	f, err := os.CreateTemp(a.Folder, "eksnode-root-")
	if err != nil {
		return "", fmt.Errorf("copying the root partition: %w", err)
	}
	defer func() {
		if closing := f.Close(); err == nil {
			err = closing
		}
		if err != nil {
			_ = os.Remove(f.Name()) // err is the first error
			err = fmt.Errorf("copying the root partition to %s: %w", f.Name(), err)
		}
	}()
	if err := f.Truncate(p.Length); err != nil {
		return "", err
	}
	block := make([]byte, disk.BlockSize)
	for at := int64(0); at < p.Length && ctx.Err() == nil; at += disk.BlockSize {
		part := block[:min(disk.BlockSize, p.Length-at)]
		if a.Image.Zero(p.Offset+at, int64(len(part))) || !a.Layout.Used(p.Offset+at, int64(len(part))) {
			continue
		}
		if _, err := a.Image.ReadAt(part, p.Offset+at); err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if _, err := f.WriteAt(part, at); err != nil {
			return "", err
		}
	}
	return f.Name(), context.Cause(ctx)
}

// child runs the task in this program, in a mount namespace of its own.
func child(ctx context.Context, t task) (plan.Report, error) {
	var out bytes.Buffer
	said, err := start(ctx, t, &out)
	if ctx.Err() != nil {
		return plan.Report{}, context.Cause(ctx)
	}
	var a answer
	if decoding := json.Unmarshal(out.Bytes(), &a); decoding != nil {
		return plan.Report{}, failed(errors.Join(err, decoding), said)
	}
	if a.Error != "" {
		return a.Report, errors.New(a.Error)
	}
	return a.Report, nil
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	return strings.TrimSpace(errOut.String()), err
}

// failed is the error of a child that did not answer.
func failed(err error, said string) error {
	return fmt.Errorf("the process that mounts the file system failed: %w: %s", err, said)
}
