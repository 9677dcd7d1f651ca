package host

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// perProcessor is how many files are unlinked before the thread moves on. Since
// Linux 5.14, XFS only puts an unlinked file on a list of the processor's; once
// 32 are there, a kernel thread of that processor frees them, and whoever goes
// on unlinking there takes turns with it.
const perProcessor = 32

// Whether moving on pays differs: with 100 k files and two processors it took
// four fifths of the time on one machine, and five fourths on the next, where
// moving costs more than it saves. So both are tried, in turns, before one is
// kept. The first files are no measure: the lists are empty.
const (
	perTurn = 64 * perProcessor // long enough for the kernel's thread to have its share in each
	turns   = 5                 // the first, then staying and moving, twice
)

// mover unlinks on one processor after the other, where that is faster than to
// stay.
type mover struct {
	processors []int // empty: it stays where it is
	before     unix.CPUSet
	unlinks    int
	moving     bool

	now   func() time.Time
	began time.Time
	// took is how long turns took that stayed, and that moved.
	took [2]time.Duration
}

// newMover binds the goroutine to its thread until stop.
func newMover() *mover {
	runtime.LockOSThread()
	m := &mover{now: time.Now}
	if unix.SchedGetaffinity(0, &m.before) != nil {
		return m
	}
	// Two suffice, the one on which the other's files are freed.
	for cpu := 0; cpu < 8*unix.SizeofLong*len(m.before) && len(m.processors) < 2; cpu++ {
		if m.before.IsSet(cpu) {
			m.processors = append(m.processors, cpu)
		}
	}
	if len(m.processors) < 2 {
		m.processors = nil
	}
	return m
}

func (m *mover) unlink(dir int, name []byte, flags int) unix.Errno {
	if len(m.processors) > 0 {
		m.count()
	}
	return unlinkatAlone(dir, name, flags)
}

// count notes one unlink more, and moves when it is time.
func (m *mover) count() {
	m.unlinks++
	if m.unlinks%perTurn == 0 && m.unlinks <= turns*perTurn {
		m.turn(m.unlinks / perTurn)
	}
	if m.moving && m.unlinks%perProcessor == 0 {
		m.move(m.processors[m.unlinks/perProcessor%len(m.processors)])
	}
}

// turn begins the turn of that number, of which the even ones move, or after the
// last goes on as was faster.
func (m *mover) turn(n int) {
	now := m.now()
	if ended := n - 1; ended > 0 {
		m.took[1-ended%2] += now.Sub(m.began)
	}
	m.began = now
	moving := n%2 == 0
	if n == turns {
		moving = m.took[1] < m.took[0]
	}
	if m.moving && !moving {
		m.free()
	}
	m.moving = moving
}

func (m *mover) move(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	if unix.SchedSetaffinity(0, &set) != nil { // such as a processor that was switched off
		m.processors, m.moving = nil, false
		m.free()
	}
}

func (m *mover) free() { _ = unix.SchedSetaffinity(0, &m.before) }

// stop lets the thread run where it could before.
func (m *mover) stop() {
	if len(m.processors) > 0 {
		m.free()
	}
	runtime.UnlockOSThread()
}
