//go:build e2e

package kills_test

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

const (
	// patience bounds each wait, also on a busy machine.
	patience = time.Minute
	tick     = 20 * time.Millisecond
	// target is the unit that systemd starts, instead of a boot's services.
	target = "kills.target"
	// command is the path of eksnode on the machines, different from the installed
	// one.
	command = "/run/kills/eksnode"
)

// node is a machine with a real systemd, on an overlay over a start. It boots
// in well under a second, because it starts no services.
type node struct {
	t      *testing.T
	world  *world
	name   string
	folder string // folders of the overlay: upper, work and root
	leader int    // process 1 of the machine, numbered on the host
	jobs   []*job // jobs that were started on it
	// end ends the machine; its disk stays until the test ends.
	end func()
}

// bootScript becomes systemd-nspawn, in namespaces of its own.
//
//go:embed testdata/boot.sh
var bootScript string

// boot starts a machine whose changes go to a new folder. layers are the lower
// layers, the uppermost first.
func (w *world) boot(t *testing.T, layers []string) *node {
	t.Helper()
	n := &node{t: t, world: w, folder: w.temporary(t)}
	for _, name := range []string{"upper", "work", "root"} {
		require.NoError(t, os.Mkdir(filepath.Join(n.folder, name), 0o755))
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", strings.Join(layers, ":"), n.upper(), filepath.Join(n.folder, "work"))
	require.NoError(t, unix.Mount("overlay", n.root(), "overlay", 0, options))

	// The next lab removes the control groups of a killed one, by its name.
	n.name = filepath.Base(w.Folder()) + "-kills-" + filepath.Base(n.folder)
	groups := show.Each(w.groups, func(own string) string { return filepath.Join(own, "eksnode-"+n.name) })
	cmd := w.Command(w.Ctx, "sh", "-c", bootScript, "sh",
		"--directory="+n.root(), "--machine=machine", "--hostname=localhost", "--uuid=0123456789abcdef0123456789abcdef",
		"--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=read-only",
		"--network-namespace-path=/proc/self/ns/net", "--bind-ro="+w.program+":"+command, "--boot", "systemd.unit="+target)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	cmd.Env = append(os.Environ(), "GROUPS_OF_MACHINE="+strings.Join(groups, " "),
		"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "SYSTEMD_NSPAWN_TMPFS_TMP=0", "SYSTEMD_LOG_TARGET=console")
	var console bytes.Buffer
	cmd.Stdout, cmd.Stderr = &console, &console
	require.NoError(t, cmd.Start())
	n.end = sync.OnceFunc(func() {
		assert.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // the machine was killed
		assert.NoError(t, machine.RemoveControlGroups(n.name))
		assert.NoError(t, machine.RemoveControlGroups(n.name+"-commands-*"))
		assert.NoError(t, unix.Unmount(n.root(), unix.MNT_DETACH))
	})
	t.Cleanup(n.end)
	if !assert.Eventually(t, func() bool {
		n.leader = child(cmd.Process.Pid)
		return n.leader != 0 && n.enter("systemctl", "is-active", target).Run() == nil
	}, patience, tick) {
		n.end() // nothing more is written to the console
		require.Fail(t, "the machine is not up", console.String())
	}
	return n
}

func (n *node) upper() string { return filepath.Join(n.folder, "upper") }
func (n *node) root() string  { return filepath.Join(n.folder, "root") }

// child returns the only child of a process, 0 without one.
func child(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0
	}
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return id
}

// enter prepares a command on the machine. The command has root's rights in a
// container, without the capabilities that reach the host's kernel.
func (n *node) enter(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(n.world.Ctx, "/usr/bin/nsenter", append([]string{
		"--target", fmt.Sprint(n.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
		"setpriv", "--bounding-set=-sys_module,-sys_rawio,-sys_time,-sys_boot,-net_admin,-syslog",
	}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	cmd.Dir = "/"
	return cmd
}

// sh runs a shell script that must succeed, and returns its output.
func (n *node) sh(script string) string {
	n.t.Helper()
	return testkit.Output(n.t, n.enter("sh", "-euc", script))
}

// job is a command on a machine, with all its child processes.
type job struct {
	*exec.Cmd
	t     *testing.T
	group string // its control group
	out   string // output file; child processes may keep it open
}

// job prepares a command. Each command gets a control group of its own: after a
// kill the kernel starts no more processes in it.
func (n *node) job(args ...string) *job {
	n.t.Helper()
	id := fmt.Sprintf("%s-commands-%d", n.name, len(n.jobs))
	j := &job{Cmd: n.enter(args...), t: n.t, group: filepath.Join(n.world.unified, "eksnode-"+id), out: filepath.Join(n.folder, id)}
	n.jobs = append(n.jobs, j)
	require.NoError(n.t, os.Mkdir(j.group, 0o755))
	group, err := os.Open(j.group)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { assert.NoError(n.t, group.Close()) })
	out, err := os.Create(j.out)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { assert.NoError(n.t, out.Close()) })
	j.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd())}
	j.Stdout, j.Stderr = out, out
	return j
}

// said returns the output so far.
func (j *job) said() string {
	return testkit.Content(j.t, j.out)
}

// killAll kills the command and all its child processes at once.
func (j *job) killAll() {
	assert.NoError(j.t, os.WriteFile(filepath.Join(j.group, "cgroup.kill"), []byte("1"), 0))
}

// killOnly kills the command, but not its child processes. The command may have
// ended.
func (j *job) killOnly() {
	if pid := child(j.Process.Pid); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// over reports whether no process of the job runs any more.
func (j *job) over() bool {
	text, err := os.ReadFile(filepath.Join(j.group, "cgroup.events"))
	return err == nil && strings.Contains(string(text), "populated 0")
}

// quiet waits until no job's process runs on the machine.
func (n *node) quiet() {
	n.t.Helper()
	for i, j := range n.jobs {
		if !assert.Eventually(n.t, j.over, patience, tick) {
			require.Fail(n.t, fmt.Sprintf("programs of run %d still run", i), n.sh("ps axfo pid,pgid,stat,wchan:30,args"))
		}
	}
}
