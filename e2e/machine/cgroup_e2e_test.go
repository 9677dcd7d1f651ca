//go:build e2e

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A machine whose name another's begins with ends alone.
func TestControlGroupsOfOthersStay(t *testing.T) {
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
	assert.NoError(t, process.Process.Signal(syscall.Signal(0)), "its processes run")
}
