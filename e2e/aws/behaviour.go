//go:build linux

package aws

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Behaviour is how late, how often and whether AWS answers. All numbers count calls,
// never time: a call is a look when it would have shown the thing, and a try when it
// would have taken the name. EC2's API is eventually consistent
// (https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html).
type Behaviour struct {
	// Seed decides which calls are throttled, and which answers are lost.
	Seed uint64
	// Throttled is one of how many calls is refused, for a repeat, and Lost is one of how
	// many is carried out without an answer; 0 is none.
	Throttled, Lost uint64
	// Seen is how many looks do not find a new image or snapshot. Flaps makes the
	// second look after that fail too: seen, not seen, seen.
	Seen  int
	Flaps bool
	// Behind is how many looks more an image needs than its snapshots.
	Behind int
	// Pending is how many looks then show an image without its snapshots, or a snapshot
	// that is not completed.
	Pending int
	// Gone is how many looks still show a deregistered image or a deleted snapshot.
	Gone int
	// Taken is how many tries at the name of a deregistered image fail.
	Taken int
	// Stale is how many reads of a parameter still return what it had before a put.
	Stale int
	// InUse is how many deletions of a snapshot fail after its image was deregistered.
	// EC2 has done so (https://github.com/boto/boto/issues/3019).
	InUse int
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
	Stopped      Fault = "stopped"       // done; Happens tells the caller to stop, and the answer is lost
	KilledBefore Fault = "killed before" // the caller is gone, and the call not done
	KilledAfter  Fault = "killed after"  // the call is done, and the caller gone
)

// Mild is AWS on a usual day: everything is late once. Every World begins with it; its
// seed is the name of the test.
func Mild(seed uint64) Behaviour {
	return Behaviour{Seed: seed, Throttled: 8, Lost: 16, Seen: 1, Flaps: true, Pending: 1, Gone: 1, Taken: 1, Stale: 1, InUse: 1}
}

// Prompt turns the behaviour off: AWS answers at once, once and truthfully. The reason is
// what the test is about instead.
func (w *World) Prompt(reason string) *World {
	require.NotEmpty(w.t, reason)
	w.Behave(Behaviour{})
	return w
}

// Behave changes the behaviour.
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
	again map[string]int // throttled calls, by service and action
	trace []string
	dead  bool
	// The others are protected by the world's mutex. late and gone are by image or
	// snapshot, taken by region and name.
	late          map[any]*late
	gone          map[any]int
	taken         map[string]int
	puts          map[string]*put // by region and parameter
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

// repeatable matches the calls that are throttled and whose answers are lost: those that
// read, and those that eksnode changes an account with.
var repeatable = regexp.MustCompile(`^(e(c2|bs):.*(Image|Snapshot)|ssm:|[a-z0-9]+:(Describe|Get|List))`)

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // it cannot fail
	return h.Sum64()
}

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
	fault, number := f.Faults[name], hash(fmt.Sprint(f.Seed, name))
	switch {
	case fault != "" || !repeatable.MatchString(full):
	case f.Throttled > 0 && number%f.Throttled == 0:
		fault = Crowded
		f.again[full]++
	case f.Lost > 0 && number/64%f.Lost == 0:
		fault = Lost
	}
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
		switch service, _, _ := strings.Cut(full, ":"); service {
		case "ec2":
			return &endpoint.Failure{Code: "RequestLimitExceeded", Message: "Request limit exceeded.", Status: http.StatusServiceUnavailable}
		case "ebs":
			return &endpoint.Failure{Code: "RequestThrottledException", Message: "Rate exceeded", Status: http.StatusBadRequest}
		}
		return &endpoint.Failure{Code: "ThrottlingException", Message: "Rate exceeded", Status: http.StatusBadRequest}
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

func (w *World) aroundEBS(action string, do func() *ebsdirect.Failure) *ebsdirect.Failure {
	var failure *ebsdirect.Failure
	err := w.around("ebs:"+action, w.ebs.Region, func() error {
		failure = do()
		return nil
	})
	if fault, ok := err.(*endpoint.Failure); ok {
		return fault
	}
	return failure
}

// born notes a new image or snapshot.
func (w *World) born(thing any) {
	l := &late{hidden: w.front.Seen, pending: w.front.Pending}
	if _, is := thing.(*Image); is {
		l.hidden += w.front.Behind
	}
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
