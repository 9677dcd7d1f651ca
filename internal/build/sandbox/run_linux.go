package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// patience is how long the process inside may take to end after SIGTERM.
const patience = 30 * time.Second

// searchPath is the search path inside. That of the host may lack folders of the root.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Run runs this program again, for the image root in the folder root. It writes input to
// the standard input of that process, which has to call Enter, and returns its standard
// output. When ctx ends, the process gets SIGTERM.
func Run(ctx context.Context, root string, input []byte, errOut io.Writer) ([]byte, error) {
	out, err := start(ctx, root, mark, input, errOut)
	return out, errors.Join(err, removePlaceholder(root))
}

// removePlaceholder removes the file that showResolver made, if the root has it.
func removePlaceholder(folder string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	name := strings.TrimPrefix(resolvConf, "/")
	if info, err := root.Lstat(name); err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(placeholder)) {
		return nil // the root has its own, or none
	}
	if text, err := root.ReadFile(name); err != nil || string(text) != placeholder {
		return err
	}
	return root.Remove(name)
}

// Script runs a script of /bin/sh in a sandbox of the root, whose programs also see the
// block device of the root. It returns what they write to standard output. The program's
// main function has to call Child.
func Script(ctx context.Context, root, script string, errOut io.Writer) ([]byte, error) {
	return start(ctx, root, scriptMark, []byte(script), errOut)
}

func start(ctx context.Context, root, mark string, input []byte, errOut io.Writer) ([]byte, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("entering %s: eksnode runs as user %d, but only root can make a sandbox; run "+
			"eksnode as root", root, os.Geteuid())
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = os.Args[:1]
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "TMPDIR=") && !strings.HasPrefix(e, "PATH=") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, searchPath, mark+"="+root)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("%w; in a container, copy eksnode into the root and run it there with chroot, without "+
			"--root", err)
	}
	if err != nil {
		err = fmt.Errorf("running eksnode in a sandbox in %s: %w", root, err)
	}
	return out.Bytes(), err
}

// Inside says whether Run started this process.
func Inside() bool { return os.Getpid() == 1 && os.Getenv(mark) != "" }

// Child runs the script of Script, if Script started this process.
func Child() (code int, child bool) {
	if os.Getpid() != 1 || os.Getenv(scriptMark) == "" {
		return 0, false
	}
	err := enter(scriptMark, func() error { return mountAll(false) }, makeDevices, makeRootDevice)
	if err == nil {
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-eu")
		cmd.Env, cmd.Dir = login, "/"
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}
