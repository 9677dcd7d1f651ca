//go:build e2e

package machine_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// onDisk is how many bytes a file occupies.
func onDisk(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }

// descendants lists the processes below one, by the tables of /proc.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	var family []int
	tables, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, table := range tables {
		children, err := os.ReadFile(table)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended after it was listed
		}
		require.NoError(t, err)
		for _, field := range strings.Fields(string(children)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			family = append(append(family, child), descendants(t, child)...)
		}
	}
	return family
}

// alive picks the processes that have not ended.
func alive(pids []int) []int {
	var running []int
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			running = append(running, pid)
		}
	}
	return running
}

// assertNothingLeft looks for what a lab must not leave on the host.
func assertNothingLeft(t *testing.T, lab string) {
	t.Helper()
	assert.NoDirExists(t, lab)
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	assert.NotContains(t, string(mounts), lab)
	loops, err := command("losetup", "--list", "--noheadings").Output()
	require.NoError(t, err)
	assert.NotContains(t, string(loops), lab)
	groups, err := command("find", "/sys/fs/cgroup", "-name", "eksnode-"+filepath.Base(lab)+"*").Output()
	require.NoError(t, err)
	assert.Empty(t, string(groups))
}
