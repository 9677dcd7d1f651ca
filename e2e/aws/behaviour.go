//go:build linux

package aws

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Behaviour is how late, how often and whether AWS answers. All numbers count calls,
// never time: a call is a look when it would have shown the thing, and a try when it
// would have taken the name. EC2's API is eventually consistent
// (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html).
type Behaviour struct {
	// Seed decides which calls are throttled.
	Seed uint64
	// Throttled is one of how many calls about images and snapshots is refused, for a
	// repeat; 0 is none.
	Throttled uint64
	// Seen is how many looks do not find a new image or snapshot. Flaps makes the
	// second look after that fail too: seen, not seen, seen.
	Seen  int
	Flaps bool
	// Pending is how many looks then show an image without its snapshots, or a snapshot
	// that is not completed.
	Pending int
	// Gone is how many looks still show a deregistered image or a deleted snapshot.
	Gone int
	// Taken is how many tries at the name of a deregistered image fail.
	Taken int
	// Faults are what happens to single calls, by the names that Trace returns.
	Faults map[string]Fault
	// Happens is called at each fault, after the call was carried out. It may be nil.
	Happens func(Fault)
}

// Fault is what happens to a call.
type Fault string

// The faults. Those with a broken connection are repeated by the SDK.
const (
	Refused      Fault = "refused"       // not done: permission denied
	Crowded      Fault = "crowded"       // not done: too many calls
	Reset        Fault = "reset"         // not done, and the connection breaks
	Lost         Fault = "lost"          // done, and the connection breaks
	Unsure       Fault = "unsure"        // done, and the answer is an internal error
	Twice        Fault = "twice"         // done twice; the caller gets the second answer
	Stopped      Fault = "stopped"       // done, and Happens tells the caller to stop
	KilledBefore Fault = "killed before" // the caller is gone, and the call not done
	KilledAfter  Fault = "killed after"  // the call is done, and the caller gone
)

// Mild is AWS on a usual day: everything is late once.
func Mild(seed uint64) Behaviour {
	return Behaviour{Seed: seed, Throttled: 8, Seen: 1, Flaps: true, Pending: 1, Gone: 1, Taken: 1}
}

// Behave changes the behaviour. The zero Behaviour answers at once, once and truthfully.
func (w *World) Behave(b Behaviour) {
	w.front.mutex.Lock()
	w.front.Behaviour = b
	w.front.mutex.Unlock()
	if w.ebs != nil {
		w.ebs.NotFoundYet, w.ebs.Completing = b.Seen, b.Pending
	}
}

// front is the state of a world's behaviour.
type front struct {
	Behaviour
	mutex sync.Mutex
	count map[string]int
	trace []string
	dead  bool
	// The others are protected by the world's mutex. late and gone are by image or
	// snapshot, taken by region and name.
	late          map[any]*late
	gone          map[any]int
	taken         map[string]int
	goneImages    []*Image
	goneSnapshots []*Snapshot
}

// late is what a new image or snapshot does not show yet, in looks. A flap of 2 is seen,
// and a flap of 1 is not.
type late struct{ hidden, flap, pending int }

// Trace returns the names of the calls so far: service, action, region and number.
func (w *World) Trace() []string {
	w.front.mutex.Lock()
	defer w.front.mutex.Unlock()
	return slices.Clone(w.front.trace)
}

// aboutImages matches the calls that are throttled.
var aboutImages = regexp.MustCompile(`^e(c2|bs):.*(Image|Snapshot)`)

// next names a call, and says what happens to it.
func (f *front) next(full, region string) Fault {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.dead {
		return KilledBefore
	}
	name := full + " " + region
	f.count[name]++
	name = fmt.Sprintf("%s #%d", name, f.count[name])
	f.trace = append(f.trace, name)
	hash := fnv.New64a()
	fmt.Fprint(hash, f.Seed, name)
	if f.Throttled > 0 && aboutImages.MatchString(full) && hash.Sum64()%f.Throttled == 0 {
		return cmp.Or(f.Faults[name], Crowded)
	}
	fault := f.Faults[name]
	f.dead = fault == KilledBefore || fault == KilledAfter
	return fault
}

// restart begins a new process: its calls are numbered from 1.
func (f *front) restart() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count, f.trace, f.dead = map[string]int{}, nil, false
}

// around is the door of every call to every double: it carries a call out as the
// behaviour wants it.
func (w *World) around(full, region string, do func() error) error {
	fault := w.front.next(full, region)
	if happens := w.front.Happens; happens != nil && fault != "" {
		defer happens(fault)
	}
	switch fault {
	case Refused:
		return denial(full)
	case Crowded:
		if full[:4] == "ebs:" {
			return &endpoint.Failure{Code: "RequestThrottledException", Message: "Rate exceeded", Status: http.StatusBadRequest}
		}
		return &endpoint.Failure{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable}
	case Reset, KilledBefore:
		panic(http.ErrAbortHandler) // closes the connection
	case Lost, KilledAfter:
		_ = do()
		panic(http.ErrAbortHandler)
	case Unsure:
		_ = do()
		return &endpoint.Failure{Code: "InternalError", Message: "An internal error has occurred", Status: http.StatusInternalServerError}
	case Twice:
		_ = do()
	}
	return do()
}

// aroundEBS is around for the EBS direct APIs.
func (w *World) aroundEBS(action string, do func() *ebsdirect.Failure) *ebsdirect.Failure {
	var failure *ebsdirect.Failure
	err := w.around("ebs:"+action, w.ebs.Region, func() error {
		failure = do()
		return nil
	})
	if fault, ok := err.(*endpoint.Failure); ok {
		return &ebsdirect.Failure{Status: fault.Status, Code: fault.Code, Message: fault.Message}
	}
	return failure
}

// born notes a new image or snapshot.
func (w *World) born(thing any) {
	l := &late{hidden: w.front.Seen, pending: w.front.Pending}
	if w.front.Flaps {
		l.flap = 2
	}
	w.front.late[thing] = l
}

// look says what a call sees of an image or a snapshot.
func (w *World) look(thing any) (seen, pending bool) {
	l := w.front.late[thing]
	switch {
	case l == nil:
		return true, false
	case l.hidden > 0:
		l.hidden--
		return false, false
	case l.flap > 0:
		l.flap--
		return l.flap == 1, true
	case l.pending > 0:
		l.pending--
		return true, true
	}
	return true, false
}

// died notes an image or a snapshot that was removed.
func (w *World) died(thing any) {
	w.front.gone[thing] = w.front.Gone
	switch thing := thing.(type) {
	case *Image:
		w.front.goneImages = append(w.front.goneImages, thing)
		w.front.taken[thing.Region+" "+thing.Name] = w.front.Taken
	case *Snapshot:
		w.front.goneSnapshots = append(w.front.goneSnapshots, thing)
	}
}

// still returns the objects and those of the removed ones that a look may still find.
func still[R place](w *World, all, gone []R) []R {
	all = slices.Clone(all)
	for _, one := range gone {
		if w.front.gone[one] > 0 {
			all = append(all, one)
		}
	}
	return all
}

// seen returns what a look sees of the chosen objects. An object that the call names by
// its ID and is not seen is an error.
func seen[R place](w *World, chosen []R, ids []string, missing string, pending func(R) R) (all []R, err error) {
	for _, one := range chosen {
		_, id, _ := one.at()
		if w.front.gone[one] > 0 {
			w.front.gone[one]--
		}
		switch shown, waiting := w.look(one); {
		case !shown && slices.Contains(ids, id):
			err = endpoint.Fail(missing, "The ID '%s' does not exist", id)
		case !shown:
		case waiting:
			all = append(all, pending(one))
		default:
			all = append(all, one)
		}
	}
	return all, err
}

// visible returns an object that a call names. One that is not seen yet is an error.
func visible[R place](w *World, one R, err error, id, missing string) (R, error) {
	if err != nil {
		return one, err
	}
	if shown, _ := w.look(one); !shown {
		return one, endpoint.Fail(missing, "The ID '%s' does not exist", id)
	}
	return one, nil
}

// pendingImage is an image whose snapshots are not made yet.
func pendingImage(i *Image) *Image {
	one := *i
	one.State, one.Devices = "pending", slices.Clone(i.Devices)
	for n := range one.Devices {
		one.Devices[n].Snapshot = ""
	}
	return &one
}

func pendingSnapshot(s *Snapshot) *Snapshot {
	one := *s
	one.State = "pending"
	return &one
}
