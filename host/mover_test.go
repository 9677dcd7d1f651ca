//go:build linux

package host

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func allowed(t *testing.T) unix.CPUSet {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	return set
}

// An unlink on XFS takes the thread from processor to processor and leaves it
// as free as it was; a thread that has only one stays there.
func TestMover(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := allowed(t)
	if before.Count() > 1 {
		m := newMover()
		seen := map[unix.CPUSet]bool{}
		for range 4 * perProcessor {
			require.Equal(t, unix.ENOENT, m.unlink(unix.AT_FDCWD, []byte("no such file\x00"), 0))
			seen[allowed(t)] = true
		}
		m.stop()
		delete(seen, before) // as it began
		assert.Len(t, seen, 2)
		for set := range seen {
			assert.Equal(t, 1, set.Count())
		}
		assert.Equal(t, before, allowed(t))
	}

	var one unix.CPUSet
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	require.NoError(t, unix.SchedSetaffinity(0, &one))
	defer func() { assert.NoError(t, unix.SchedSetaffinity(0, &before)) }()
	m := newMover()
	for range 2 * perProcessor {
		m.unlink(unix.AT_FDCWD, []byte("no such file\x00"), 0)
	}
	assert.Equal(t, one, allowed(t))
	m.stop()
	assert.Equal(t, one, allowed(t))
}
