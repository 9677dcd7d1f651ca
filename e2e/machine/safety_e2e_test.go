//go:build e2e

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Removing the control groups of one machine keeps those of a machine with a
// longer name and the same prefix.
func TestRemovingControlGroupsKeepsOtherMachines(t *testing.T) {
	folders, err := ControlGroups()
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	name := "lab-test" + strconv.Itoa(os.Getpid()) + "-i-try"
	for _, machine := range []string{name, name + "-1"} {
		for _, folder := range folders {
			require.NoError(t, os.MkdirAll(filepath.Join(folder, "eksnode-"+machine, "init.scope"), 0o755))
		}
		t.Cleanup(func() { assert.NoError(t, RemoveControlGroups(machine)) })
	}
	neighbour := filepath.Join(folders[0], "eksnode-"+name+"-1", "init.scope")
	process := exec.Command("sleep", "infinity")
	require.NoError(t, process.Start())
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	require.NoError(t, os.WriteFile(filepath.Join(neighbour, "cgroup.procs"), []byte(strconv.Itoa(process.Process.Pid)), 0))

	require.NoError(t, RemoveControlGroups(name))
	for _, folder := range folders {
		assert.NoDirExists(t, filepath.Join(folder, "eksnode-"+name))
		assert.DirExists(t, filepath.Join(folder, "eksnode-"+name+"-1", "init.scope"))
	}
	assert.NoError(t, process.Process.Signal(syscall.Signal(0)), "the other machine's processes run")
}

// A process that cgroup v1 has frozen does not die of SIGKILL, and a machine waits for it.
func TestFrozenProcessesEndWithTheirMachine(t *testing.T) {
	all, err := hierarchies()
	require.NoError(t, err)
	for _, h := range all {
		if h.name != "freezer" {
			continue
		}
		name := "frozen-" + strconv.Itoa(os.Getpid())
		group := filepath.Join(h.own, "eksnode-"+name, "inner")
		require.NoError(t, os.MkdirAll(group, 0o755))
		t.Cleanup(func() { assert.NoError(t, RemoveControlGroups(name)) })
		process := exec.Command("sleep", "infinity")
		require.NoError(t, process.Start())
		pid := strconv.Itoa(process.Process.Pid)
		require.NoError(t, os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(pid), 0))
		require.NoError(t, os.WriteFile(filepath.Join(group, "freezer.state"), []byte("FROZEN"), 0))
		frozen := func() bool { return testkit.Content(t, filepath.Join(group, "freezer.state")) == "FROZEN\n" }
		require.Eventually(t, frozen, time.Minute, 10*time.Millisecond)
		require.NoError(t, process.Process.Kill())
		require.True(t, frozen())
		require.NoError(t, thawGroups(name))
		require.Error(t, process.Wait(), "killed")
	}
}

func TestRemoveTreeStopsAtMounts(t *testing.T) {
	precious, tree := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	require.NoError(t, os.WriteFile(filepath.Join(precious, "file"), nil, 0o644))
	mounted := filepath.Join(tree, "mounted")
	require.NoError(t, os.MkdirAll(mounted, 0o755))
	require.NoError(t, exec.Command("mount", "--bind", precious, mounted).Run())
	assert.EqualError(t, removeTree(tree), "removing "+tree+": "+mounted+" is mounted: unmount it first")
	require.NoError(t, exec.Command("umount", mounted).Run())
	require.NoError(t, removeTree(tree))
	assert.NoDirExists(t, tree)
	assert.FileExists(t, filepath.Join(precious, "file"))
}

func TestOpenFolderRemovesFoldersOfDeadLabs(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "run")
	dead, other := filepath.Join(parent, "lab-dead"), filepath.Join(parent, "others")
	require.NoError(t, os.MkdirAll(filepath.Join(dead, "i-1", "upper"), 0o755))
	require.NoError(t, os.MkdirAll(other, 0o755))
	first, err := openFolder(parent)
	require.NoError(t, err)
	assert.NoDirExists(t, dead)
	assert.DirExists(t, other, "a foreign folder")
	second, err := openFolder(parent)
	require.NoError(t, err)
	assert.DirExists(t, first.path, "the folder of a running lab was removed")
	require.NoError(t, first.remove())
	require.NoError(t, second.remove())
}

// The instance id becomes part of a path that is removed at the end.
func TestInstanceIDsWithPathsAreRefused(t *testing.T) {
	for _, id := range []string{"", "../i-1", "/", "i-1/..", "."} {
		_, err := Config{Root: "/tree", InstanceID: id}.complete()
		assert.ErrorContains(t, err, "must match", id)
	}
}

// By default a bridge takes the lowest address of its ports. If that changed with each
// machine that comes or goes, the others would send to the old one for up to a minute.
func TestMachinesThatComeAndGoKeepTheGatewaysAddress(t *testing.T) {
	l, err := NewLab(t.Context(), LabConfig{Folder: t.TempDir(), Log: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	for _, step := range []string{
		"", "ip link add low address 00:00:00:00:00:01 type veth peer name high\nip link set low master br0 up",
		"ip link delete low",
	} {
		out, err := l.Command(t.Context(), "sh", "-c", "set -e\n"+step+"\nip -brief link show br0").CombinedOutput()
		require.NoError(t, err, "%s: %s", step, out)
		assert.Contains(t, string(out), " 02:ec:0a:4d:00:01 ", step)
	}
}
