//go:build linux

package host

import (
	"runtime"
	"testing"
	"time"

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

// An unlink on XFS takes the thread from processor to processor, where that is
// faster, and leaves it as free as it was; a thread that has only one stays there.
func TestMover(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := allowed(t)
	for _, c := range []struct {
		name    string
		staying time.Duration // of a turn; moving takes a second
		seen    int           // sets of processors, when it has made up its mind
	}{{"moving is faster", 2 * time.Second, 2}, {"staying is faster", time.Second / 2, 1}, {"neither is", time.Second, 1}} {
		if before.Count() == 1 {
			break
		}
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m := newMover()
			clock := time.Time{}
			m.now = func() time.Time {
				turn := time.Second
				if !m.moving {
					turn = c.staying
				}
				clock = clock.Add(turn)
				return clock
			}
			unlinks := func(n int) map[unix.CPUSet]bool {
				seen := map[unix.CPUSet]bool{}
				for range n {
					require.Equal(t, unix.ENOENT, m.unlink(unix.AT_FDCWD, []byte("no such file\x00"), 0))
					seen[allowed(t)] = true
				}
				return seen
			}
			assert.Len(t, unlinks(2*perTurn-1), 1, "at first it stays")
			assert.Len(t, unlinks((turns-2)*perTurn), 3, "then it tries both")
			unlinks(2 * perProcessor)
			after := unlinks(4 * perProcessor)
			assert.Len(t, after, c.seen)
			assert.Equal(t, c.seen == 1, after[before], "who stays may be anywhere")
			m.stop()
			assert.Equal(t, before, allowed(t))
		})
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
	for range 4 * perTurn {
		m.unlink(unix.AT_FDCWD, []byte("no such file\x00"), 0)
	}
	assert.Equal(t, one, allowed(t))
	m.stop()
	assert.Equal(t, one, allowed(t))
}
