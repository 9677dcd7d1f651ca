package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestMain lets a test start this program as a second process that takes a lock.
func TestMain(m *testing.M) {
	root := os.Getenv("EKSNODE_TEST_LOCK")
	if root == "" {
		os.Exit(m.Run())
	}
	h, err := Mounted(root)
	if err == nil {
		_, err = h.Lock()
	}
	fmt.Println(err)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test closes the input
}

// locker starts another process that has the lock on root until its input closes.
func locker(t *testing.T, root string, attr *syscall.SysProcAttr) (cmd *exec.Cmd, end func()) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe", "scrub", "--root", root)
	cmd.Env = append(os.Environ(), "EKSNODE_TEST_LOCK="+root)
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", said)
	return cmd, func() { in.Close(); require.NoError(t, cmd.Wait()) }
}

func refused(t *testing.T, root string) string {
	t.Helper()
	h := mounted(t, root)
	_, err := h.Lock()
	require.Error(t, err)
	return err.Error()
}

// Lock refuses a second process and names the first, through every path to the
// root.
func TestLockRefusesASecondProcess(t *testing.T) {
	folder := t.TempDir()
	root, link, bind := filepath.Join(folder, "root"), filepath.Join(folder, "link"), filepath.Join(folder, "bind")
	for _, d := range []string{root, bind} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	require.NoError(t, os.Symlink(root, link))
	require.NoError(t, unix.Mount(root, bind, "", unix.MS_BIND, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(bind, 0)) })

	holder, end := locker(t, root, nil)
	for _, path := range []string{root, root + "/", link, bind} {
		shown := strings.TrimSuffix(strings.Replace(path, "link", "root", 1), "/")
		assert.Equal(t, fmt.Sprintf("another eksnode (pid %d: /proc/self/exe scrub --root %s) is working on %s; run again when that has ended", holder.Process.Pid, root, shown), refused(t, path))
	}
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Empty(t, entries, "the lock makes no file")
	end()

	holder, _ = locker(t, root, nil)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	_, end = locker(t, root, nil) // the lock ended with its process
	end()
}

// A lock holder in another PID namespace has no visible process ID.
func TestALockHolderInAnotherPIDNamespace(t *testing.T) {
	root := t.TempDir()
	h := mounted(t, root)
	unlock, err := h.Lock()
	require.NoError(t, err)
	cmd := exec.Command("/bin/sh", "-c", "mount --make-rprivate / && mount -t proc proc /proc && exec \"$0\"", exe(t))
	cmd.Env = append(os.Environ(), "EKSNODE_TEST_LOCK="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	again := *cmd
	out, err := cmd.Output()
	require.NoError(t, err)
	assert.Equal(t, "another eksnode that cannot be seen from here (in another container, or on another host) is working on "+root+"; run again when that has ended\n", string(out))

	// Lock waits, because the holder may be about to end.
	var said bytes.Buffer
	again.Stdout = &said
	require.NoError(t, again.Start())
	proc := filepath.Join("/proc", strconv.Itoa(again.Process.Pid))
	require.Eventually(t, func() bool { // the process has opened the root to lock it, or has ended
		stat, err := os.ReadFile(filepath.Join(proc, "stat"))
		return err != nil || strings.Contains(string(stat), ") Z ") || opened(proc, root) > 1
	}, time.Minute, time.Millisecond)
	require.NoError(t, unlock())
	require.NoError(t, again.Wait())
	assert.Equal(t, "<nil>\n", said.String())
}

// opened returns how many descriptors of a folder a process has.
func opened(proc, folder string) int {
	names, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	times := 0
	for _, name := range names {
		if to, err := os.Readlink(name); err == nil && to == folder {
			times++
		}
	}
	return times
}

// A command that outlives its eksnode does not keep the lock.
func TestCommandsDoNotInheritTheLock(t *testing.T) {
	root := t.TempDir()
	h := mounted(t, root)
	unlock, err := h.Lock()
	require.NoError(t, err)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	require.NoError(t, unlock())
	_, end := locker(t, root, nil)
	end()
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
}

func exe(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	require.NoError(t, err)
	return name
}

func TestLockPidsReadsProcLocks(t *testing.T) {
	st, err := os.Stat(t.TempDir())
	require.NoError(t, err)
	ino := st.Sys().(*syscall.Stat_t).Ino
	table := fmt.Sprintf("1: POSIX  ADVISORY  WRITE 11 fe:01:%d 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:2d:%d 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 13 00:2d:%d 0 EOF\n3: FLOCK ADVISORY WRITE 14 00:2d:1%d 0 EOF\n4: FLOCK\n", ino, ino, ino, ino)
	assert.Equal(t, []string{"12"}, lockPids(table, "FLOCK", st))
	assert.Equal(t, []string{"11"}, lockPids(table, "POSIX", st))
}

func FuzzLockPids(f *testing.F) {
	st, err := os.Stat(f.TempDir())
	require.NoError(f, err)
	for _, table := range []string{"", "1: POSIX  ADVISORY  WRITE 11 fe:01:7 0 EOF\n", "2: -> FLOCK  ADVISORY  WRITE 13 00:2d:7 0 EOF\n", "3: OFDLCK ADVISORY  WRITE -1 00:2d:3 0 EOF\n", "4: FLOCK\n"} {
		f.Add(table)
	}
	f.Fuzz(func(t *testing.T, table string) {
		for _, kind := range []string{"FLOCK", "POSIX"} {
			for _, pid := range lockPids(table, kind, st) {
				assert.Contains(t, table, pid)
			}
		}
	})
}

// The holder of a lock of fcntl(2) is named while it has the lock.
func TestLockHolderIsNamed(t *testing.T) {
	h := live(t)
	name := filepath.Join(t.TempDir(), ".rpm.lock")
	assert.Empty(t, h.LockHolder(name), "no file")
	file, err := os.Create(name)
	require.NoError(t, err)
	assert.Empty(t, h.LockHolder(name), "no lock")
	require.NoError(t, unix.FcntlFlock(file.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	assert.Regexp(t, fmt.Sprintf(`^pid %d: \S+`, os.Getpid()), h.LockHolder(name))
	require.NoError(t, file.Close())
	assert.Empty(t, h.LockHolder(name), "the lock is gone")
}
