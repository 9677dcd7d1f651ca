package delay

import (
	"sync"
	"time"
)

// parcel is some bytes, or the end of all bytes, and when it arrives.
type parcel struct {
	data []byte
	end  error // io.EOF for an orderly end; nil for data
	due  time.Time
}

// queue holds what is under way in one direction.
type queue struct {
	mutex   sync.Mutex
	changed *sync.Cond
	parcels []parcel
	bytes   int
	window  int
	closed  bool
}

func newQueue(window int) *queue {
	q := &queue{window: window}
	q.changed = sync.NewCond(&q.mutex)
	return q
}

// push adds a parcel, waiting while the window is full; false means that the
// queue was closed.
func (q *queue) push(one parcel) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for q.bytes >= q.window && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return false
	}
	q.parcels = append(q.parcels, one)
	q.bytes += len(one.data)
	q.changed.Broadcast()
	return true
}

// pop takes the oldest parcel, waiting for one; false means that the queue was
// closed.
func (q *queue) pop() (parcel, bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for len(q.parcels) == 0 && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return parcel{}, false
	}
	one := q.parcels[0]
	q.parcels[0] = parcel{} // lets go of the bytes
	q.parcels = q.parcels[1:]
	return one, true
}

// arrived makes room for as many bytes as have left the line.
func (q *queue) arrived(bytes int) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.bytes -= bytes
	q.changed.Broadcast()
}

// close drops what is under way and ends all waiting.
func (q *queue) close() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.closed = true
	q.parcels = nil
	q.changed.Broadcast()
}
