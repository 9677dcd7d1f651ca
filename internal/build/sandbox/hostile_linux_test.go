package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// target names things of the host, for the hostile package.
type target struct {
	Outside string // a file outside the root
	PID     int
	Socket  string // an abstract Unix socket
	Key     string // a key of root
	Memory  int    // a segment of System V shared memory
}

// TestAHostilePackageReachesNothing installs a package whose script tries to leave the
// root in many ways. A try that works changes nothing of this machine but the file outside.
func TestAHostilePackageReachesNothing(t *testing.T) {
	root := makeRoot(t)
	outside := filepath.Join(filepath.Dir(root), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("as it was"), 0o666))
	folder, err := os.Open(filepath.Dir(root)) // as a caller's shell may have it
	require.NoError(t, err)
	defer folder.Close()
	_, err = unix.FcntlInt(folder.Fd(), unix.F_SETFD, 0)
	require.NoError(t, err)
	to := target{Outside: outside, PID: os.Getpid(), Socket: fmt.Sprintf("@eksnode-test-%d", os.Getpid())}
	to.Key = strings.TrimPrefix(to.Socket, "@")
	socket, err := net.Listen("unix", to.Socket)
	require.NoError(t, err)
	defer socket.Close()
	key, err := unix.AddKey("user", to.Key, []byte("secret"), unix.KEY_SPEC_USER_KEYRING)
	require.NoError(t, err)
	defer unix.KeyctlInt(unix.KEYCTL_INVALIDATE, key, 0, 0, 0)
	to.Memory, err = unix.SysvShmGet(0x656b736e, 4096, unix.IPC_CREAT|0o666)
	require.NoError(t, err)
	defer unix.SysvShmCtl(to.Memory, unix.IPC_RMID, nil)

	pack(t, root, to)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	for _, program := range []string{"sh", "gzip", "tar"} {
		require.NoError(t, os.Symlink("busybox", filepath.Join(root, "bin", program)))
	}
	said := run(t.Context(), t, root, "export PATH=/bin; busybox dpkg -i /hostile.deb")
	tried := strings.Count(said, ": refused") + strings.Count(said, ": succeeds")
	assert.NotContains(t, said, "succeeds")
	assert.Equal(t, len(tries(to)), tried, said)
	assert.Equal(t, "as it was", testkit.Content(t, outside))
}

// pack makes the package in the root. Its script is this test.
func pack(t *testing.T, root string, to target) {
	t.Helper()
	self := testkit.Content(t, "/proc/self/exe")
	text, err := json.Marshal(to)
	require.NoError(t, err)
	tree := testkit.Programs(t, t.TempDir(), map[string]string{
		"attack": self, "attack.json": string(text), "DEBIAN/postinst": "#!/bin/sh\nexec /attack\n",
		"DEBIAN/control": "Package: hostile\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: leaves\n",
	})
	cmd := exec.Command("dpkg-deb", "-Zgzip", "-z1", "--root-owner-group", "--build", tree,
		filepath.Join(root, "hostile.deb"))
	testkit.Output(t, cmd)
}

// attack runs in the sandbox, as the script of the package.
func attack() {
	var to target
	text, err := os.ReadFile("/attack.json")
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	runtime.LockOSThread()
	for _, try := range tries(to) {
		if err := try.do(); err != nil {
			fmt.Printf("%s: refused: %v\n", try.name, err)
		} else {
			fmt.Printf("%s: succeeds\n", try.name)
		}
	}
}

type try struct {
	name string
	do   func() error
}

// tries are the ways out. None has an effect if it works, but on the file outside.
func tries(to target) []try {
	write := func(name string) func() error {
		return func() error { return os.WriteFile(name, []byte("changed"), 0o666) }
	}
	opens := func(name string, flag int) func() error {
		return func() error {
			f, err := os.OpenFile(name, flag, 0)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	node := func(kind uint32, major, minor uint32) func() error {
		return func() error {
			if err := unix.Mknod("/device", kind|0o600, int(unix.Mkdev(major, minor))); err != nil {
				return err
			}
			return opens("/device", os.O_RDONLY)()
		}
	}
	mounts := func(source, folder, kind string, flags uintptr) func() error {
		return func() error { return unix.Mount(source, folder, kind, flags, "") }
	}
	return []try{
		{"path", opens(to.Outside, os.O_WRONLY)},
		{"dots", opens("../../../../../../.."+to.Outside, os.O_WRONLY)},
		{"link", func() error {
			if err := os.Symlink(to.Outside, "/link"); err != nil {
				return err
			}
			return opens("/link", os.O_WRONLY)()
		}},
		{"root of the first process", write("/proc/1/root" + to.Outside)},
		{"folder of the first process", write("/proc/1/cwd" + to.Outside)},
		{"files of the first process", func() error { return anyOf("/proc/1/fd/*", filepath.Base(to.Outside)) }},
		{"own inherited files", func() error { return anyOf("/proc/self/fd/*", filepath.Base(to.Outside)) }},
		{"chroot and out", func() error {
			if err := errors.Join(os.MkdirAll("/jail", 0o755), unix.Chroot("/jail")); err != nil {
				return err
			}
			defer unix.Chroot(".")
			for range 50 {
				_ = unix.Chdir("..")
			}
			return opens(strings.TrimPrefix(to.Outside, "/"), os.O_WRONLY)()
		}},
		{"disk", node(unix.S_IFBLK, 8, 0)},
		{"loop device", node(unix.S_IFBLK, 7, 0)},
		{"memory", node(unix.S_IFCHR, 1, 1)},
		{"tmpfs", mounts("none", "/run", "tmpfs", 0)},
		{"devtmpfs", mounts("none", "/run", "devtmpfs", 0)},
		{"remount of sysfs", mounts("none", "/sys", "", unix.MS_REMOUNT)},
		{"bind mount", mounts("/proc/1/root", "/run", "", unix.MS_BIND)},
		{"what is under a mount", func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }},
		{"host's mounts", func() error { return shows("/proc/self/mountinfo", " - cgroup") }},
		{"core pattern", opens("/proc/sys/kernel/core_pattern", os.O_WRONLY)},
		{"sysctl", opens("/proc/sys/vm/swappiness", os.O_WRONLY)},
		{"sysrq", opens("/proc/sysrq-trigger", os.O_WRONLY)},
		{"profiling", opens("/sys/kernel/profiling", os.O_WRONLY)},
		{"uevent helper", opens("/sys/kernel/uevent_helper", os.O_WRONLY)},
		{"firmware variables", func() error { return anyOf("/sys/firmware/*", "") }},
		{"list of disks", func() error { return anyOf("/sys/block/*", "") }},
		{"table of disks", func() error { return shows("/proc/partitions", "major") }},
		{"memory of the kernel", func() error { return shows("/proc/kcore", "ELF") }},
		{"control groups", func() error { return anyOf("/sys/fs/cgroup/*", "") }},
		{"host's namespaces", func() error {
			f, err := os.Open("/proc/1/ns/mnt")
			if err != nil {
				return err
			}
			defer f.Close()
			return unix.Setns(int(f.Fd()), unix.CLONE_NEWNS)
		}},
		{"mount namespace", func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
		{"user namespace", func() error { // a process with several threads cannot unshare it
			cmd := exec.Command("/bin/busybox", "true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
			return cmd.Run()
		}},
		{"file handle", func() error {
			_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), os.O_RDONLY)
			return err
		}},
		{"kernel module", func() error { return unix.FinitModule(0, "", 0) }},
		{"signal to the host", func() error { return unix.Kill(to.PID, 0) }},
		{"hostname", func() error { return unix.Sethostname([]byte("localhost")) }},
		{"clock", func() error {
			var now unix.Timeval
			if err := unix.Gettimeofday(&now); err != nil {
				return err
			}
			return unix.Settimeofday(&now)
		}},
		{"raw packets", func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}},
		{"host's sockets", func() error {
			c, err := net.Dial("unix", to.Socket)
			if err == nil {
				c.Close()
			}
			return err
		}},
		{"keys", func() error {
			_, err := unix.RequestKey("user", to.Key, "", 0)
			return err
		}},
		{"shared memory", func() error {
			_, err := unix.SysvShmGet(0x656b736e, 4096, 0)
			return err
		}},
		{"kernel's log", func() error {
			_, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64))
			return err
		}},
		{"priority over the host", func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
	}
}

var errNothing = errors.New("nothing there")

// anyOf opens what matches a pattern, and then a name below it.
func anyOf(pattern, below string) error {
	all, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	for _, name := range all {
		if f, err := os.Open(filepath.Join(name, below)); err == nil {
			f.Close()
			return nil
		}
	}
	return errNothing
}

// shows reads a file and looks for a text.
func shows(name, text string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	content := make([]byte, 64<<10)
	n, _ := f.Read(content) // the content says enough
	if !strings.Contains(string(content[:n]), text) {
		return errNothing
	}
	return nil
}
