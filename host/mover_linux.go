package host

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// perProcessor is how many files are unlinked before the thread moves on. Since
// Linux 5.14, XFS only puts an unlinked file on a list of the processor's; once
// 32 are there, a kernel thread of that processor frees them, and whoever goes
// on unlinking there takes turns with it. With 100 k files and two processors,
// moving on just then takes four fifths of the time that staying does; moving on
// after 16 takes more, after 8 or 100 hardly less than staying.
const perProcessor = 32

// mover unlinks on one processor after the other.
type mover struct {
	processors []int // empty: it stays where it is
	before     unix.CPUSet
	unlinks    int
}

// newMover binds the goroutine to its thread until stop.
func newMover() *mover {
	runtime.LockOSThread()
	m := &mover{}
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
	if m.unlinks++; len(m.processors) > 0 && m.unlinks%perProcessor == 0 {
		m.move(m.processors[m.unlinks/perProcessor%len(m.processors)])
	}
	return unlinkatAlone(dir, name, flags)
}

func (m *mover) move(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	if unix.SchedSetaffinity(0, &set) != nil { // such as a processor that was switched off
		m.processors = nil
		_ = unix.SchedSetaffinity(0, &m.before)
	}
}

// stop lets the thread run where it could before.
func (m *mover) stop() {
	if len(m.processors) > 0 {
		_ = unix.SchedSetaffinity(0, &m.before)
	}
	runtime.UnlockOSThread()
}
