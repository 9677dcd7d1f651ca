package diskbuild

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/sandbox"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

// Opened is a build whose disk is mounted, with commands in a sandbox of the disk.
type Opened struct {
	*sandbox.Commands
	keep  bool
	notes []string
	done  chan error
}

// Open copies the base image, and mounts the copy. The caller has to call Finish. The
// program's main function has to call OpenChild.
func (b Build) Open(ctx context.Context) (*Opened, error) {
	commands, inside, err := sandbox.NewCommands()
	if err != nil {
		return nil, err
	}
	o := &Opened{Commands: commands, done: make(chan error, 1)}
	b.Folder, b.Input = inside, struct{}{}
	go func() {
		var none any
		var err error
		o.notes, err = b.Run(ctx, &none, func() bool { return o.keep })
		inside.Close() // so that no command waits for the process that is gone
		o.done <- err
	}()
	if code, err := o.Run(ctx, "exit 0", nil, nil, nil); err != nil || code != 0 {
		if _, failed := o.Finish(false); failed != nil {
			err = failed
		}
		if code != 0 {
			err = errors.Join(err, fmt.Errorf("/bin/sh of the image ends with %d", code))
		}
		return nil, err
	}
	return o, nil
}

// Finish ends the sandbox and unmounts the disk. If keep is set, it writes the disk image.
// The notes are for a person.
func (o *Opened) Finish(keep bool) (notes []string, err error) {
	o.keep = keep
	if err := o.Close(); err != nil {
		return nil, err
	}
	err = <-o.done
	return o.notes, err
}

// CanRun returns an error for a disk whose programs this machine cannot run.
func CanRun(h *host.Host) error {
	switch arch := h.Arch(); arch {
	case runtime.GOARCH:
		return nil
	case "":
		return errors.New("/bin/sh of the image is no program of Linux for amd64 or arm64, so the image cannot be " +
			"built")
	default:
		return emulates(arch)
	}
}

// emulates returns an error if Linux does not run programs of another architecture with
// qemu. It tries a program, because a container need not see the settings of binfmt_misc.
func emulates(arch string) error {
	if err := runs(program(arch)); err != nil {
		return fmt.Errorf("the base image is for %s, but this machine is %s and does not run such programs "+
			"with qemu (%w): apt-get install qemu-user-static binfmt-support (Fedora: dnf install "+
			"qemu-user-static), or build on %s",
			arch, runtime.GOARCH, err, arch)
	}
	return nil
}

// runs runs a program in a root with nothing else: like an image, it has no copy of qemu.
func runs(program []byte) error {
	root, err := os.MkdirTemp("", "eksnode-runs-")
	if err != nil {
		return err
	}
	defer os.Remove(root)
	// Other file systems can be mounted noexec.
	if err := unix.Mount("eksnode", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k"); err != nil {
		return fmt.Errorf("making a folder to try a program: %w", err)
	}
	defer unix.Unmount(root, 0)
	if err := os.WriteFile(filepath.Join(root, "true"), program, 0o700); err != nil {
		return err
	}
	cmd := exec.Command("/true")
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: root}
	return cmd.Run()
}

// program is a program for Linux that ends with exit code 0 (elf(5)).
func program(arch string) []byte {
	const address, headers = 0x400000, 64 + 56
	machine, code := elf.EM_X86_64, []byte{0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05} // exit is call 60
	if arch == "arm64" {
		machine = elf.EM_AARCH64
		code = []byte{0, 0, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 1, 0, 0, 0xd4} // exit is call 93
	}
	size := uint64(headers + len(code))
	var b bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{
				0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT),
			},
			Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
			Entry: address + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: address, Paddr: address,
			Filesz: size, Memsz: size, Align: 0x10000,
		},
		code,
	} {
		_ = binary.Write(&b, binary.LittleEndian, part) // a buffer takes everything
	}
	return b.Bytes()
}

// Child does the work of Run in the processes that Run starts: work, after a disk that has
// to be made first. The program's main function has to call Child or OpenChild.
func Child(ctx context.Context, work diskaudit.Worker) (code int, child bool) {
	if code, child := sandbox.Child(); child {
		return code, child
	}
	return diskaudit.Child(ctx, func(ctx context.Context, root string, input []byte) ([]byte, error) {
		var first struct{ Making *making }
		if err := json.Unmarshal(input, &first); err != nil || first.Making == nil {
			return work(ctx, root, input)
		}
		return []byte("null"), first.Making.fill(ctx, root)
	})
}

// OpenChild does the work of Open in the processes that Open starts.
func OpenChild(ctx context.Context) (code int, child bool) {
	if sandbox.Inside() {
		err := sandbox.Enter(true)
		if err == nil {
			err = sandbox.Serve(os.NewFile(diskaudit.WorkFile, "commands"))
		}
		if err != nil {
			fmt.Print(err) // the answer of the process
			return 1, true
		}
		return 0, true
	}
	return Child(ctx, func(ctx context.Context, root string, _ []byte) ([]byte, error) {
		h, err := host.Mounted(root)
		if err != nil {
			return nil, err
		}
		defer h.Close()
		if err := CanRun(h); err != nil {
			return nil, err
		}
		said, err := sandbox.Run(ctx, root, nil, os.Stderr)
		if len(bytes.TrimSpace(said)) > 0 {
			err = errors.New(string(said))
		}
		return []byte("null"), err
	})
}
