package ebsdirect

import (
	"net/http"
	"sync"
	"time"
)

// Quotas are the numbers of calls that an account may make each second (quotas), and
// the number of pending snapshots. 0 means no limit.
type Quotas struct {
	Put, Get, List, Start, Complete int
	// PutEach and GetEach are the numbers for one snapshot. They limit nothing if Put or
	// Get is 0.
	PutEach, GetEach int
	Pending          int
	// Concurrent is the number of calls at the same time. AWS does not publish the
	// number behind ConcurrentLimitExceededException.
	Concurrent int
}

// Default are the quotas of a new account.
func Default() Quotas {
	return Quotas{Put: 1000, Get: 1000, PutEach: 1000, GetEach: 1000, List: 50, Start: 10, Complete: 10, Pending: 100}
}

// Line is a network connection with a delay for each call and a rate for the bytes of
// all calls, in bytes each second. 0 is no delay, or no limit.
type Line struct {
	Delay time.Duration
	Rate  int64
}

// line is when the bytes so far have arrived.
type line struct {
	mutex sync.Mutex
	free  time.Time
}

// wait waits until a call's bytes have passed the line. All calls share the rate.
func (l Line) wait(on *line, bytes int) {
	until := time.Now()
	if l.Rate > 0 && bytes > 0 {
		on.mutex.Lock()
		if on.free.Before(until) {
			on.free = until
		}
		on.free = on.free.Add(time.Duration(float64(bytes) / float64(l.Rate) * float64(time.Second)))
		until = on.free
		on.mutex.Unlock()
	}
	if rest := time.Until(until.Add(l.Delay)); rest > 0 {
		time.Sleep(rest) // the line itself is what is simulated
	}
}

// usage is what is left of each quota.
type usage struct {
	left map[string]float64
	last map[string]time.Time
}

// take uses one call of an action's quotas, or returns the error of a used quota. An
// account has another error than a snapshot (UG, error-retries.html).
func (u *usage) take(q Quotas, action, id string) *Failure {
	account := map[string]int{
		"PutSnapshotBlock": q.Put, "GetSnapshotBlock": q.Get, "ListSnapshotBlocks": q.List, "ListChangedBlocks": q.List,
		"StartSnapshot": q.Start, "CompleteSnapshot": q.Complete,
	}[action]
	each := map[string]int{"PutSnapshotBlock": q.PutEach, "GetSnapshotBlock": q.GetEach}[action]
	switch {
	case account == 0:
	case !u.one(action+" "+id, each):
		return failing(http.StatusBadRequest, "RequestThrottledException", "RESOURCE_LEVEL_THROTTLE",
			"%s: the quota of calls each second for the snapshot is used up", action)
	case !u.one(action, account):
		return failing(http.StatusBadRequest, "ThrottlingException", "", "%s: Rate exceeded", action)
	}
	return nil
}

// one takes one call. A quota fills up at its rate, and holds the calls of one second.
func (u *usage) one(of string, limit int) bool {
	if limit == 0 {
		return true
	}
	if u.left == nil {
		u.left, u.last = map[string]float64{}, map[string]time.Time{}
	}
	now := time.Now()
	left := float64(limit)
	if last, known := u.last[of]; known {
		left = min(left, u.left[of]+now.Sub(last).Seconds()*float64(limit))
	}
	u.last[of], u.left[of] = now, left
	if left < 1 {
		return false
	}
	u.left[of]--
	return true
}
