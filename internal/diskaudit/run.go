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
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
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
	Spec   *scrub.Spec
}

// answer is what the child writes to its standard output.
type answer struct {
	Report plan.Report
	// Manifest is the image's, or nil.
	Manifest *manifest.Manifest
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
	if os.Geteuid() != 0 {
		return plan.Report{}, ErrNeedsRoot
	}
	root, err := a.Layout.Root(a.Root)
	if err != nil {
		return plan.Report{}, err
	}
	folder, err := os.MkdirTemp("", "eksnode-root-")
	if err != nil {
		return plan.Report{}, fmt.Errorf("making a folder to mount: %w", err)
	}
	defer os.Remove(folder) // the mount was never visible here
	t := task{File: a.Image.Path(), Offset: root.Offset, Length: root.Length, Kind: root.Kind, Folder: folder, Spec: &a.Spec}
	if a.Image.Format() == disk.Qcow2 {
		copied, err := a.copy(ctx, root)
		if err != nil {
			return plan.Report{}, err
		}
		defer os.Remove(copied)
		t.File, t.Offset = copied, 0
	}
	found, err := child(ctx, t)
	r := found.Report
	if a.Manifest != nil && found.Manifest != nil {
		*a.Manifest = *found.Manifest
	}
	r.Machine.Root, r.Machine.Disk, r.Machine.Partition = "/", a.Image.Path(), root.Number
	for _, p := range a.Layout.Partitions {
		if _, linux := options[p.Kind]; linux && p.Number != root.Number {
			r.Warnings = append(r.Warnings, fmt.Sprintf("partition %d (%s %s) was not audited: only the root partition %d was", p.Number, p.Kind, p.Label, root.Number))
		}
	}
	return r, err
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
func child(ctx context.Context, t task) (answer, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return answer{}, err
	}
	var out, errOut bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = os.Args[:1]
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), &out, &errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return answer{}, context.Cause(ctx)
	}
	var a answer
	if decoding := json.Unmarshal(out.Bytes(), &a); decoding != nil {
		return answer{}, fmt.Errorf("the process that mounts the file system failed: %w: %s", errors.Join(err, decoding), strings.TrimSpace(errOut.String()))
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}
