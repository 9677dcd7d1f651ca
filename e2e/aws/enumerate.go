//go:build linux

package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// Scenario is a run of the product that Enumerate disturbs at each of its calls. Its
// functions are called concurrently, each time with another world.
type Scenario struct {
	Name string
	// Unsaved says that the records are too large to copy: a killed run is then one that
	// has lost its network.
	Unsaved bool
	// Begin fills a light world and the folder that the run keeps its records in.
	Begin func(w *World, folder string) error
	// Run is the product. Client calls the world.
	Run func(ctx context.Context, client *http.Client, folder string) error
	// Moment returns the invariant that is broken after a call. It may be nil.
	Moment func(w *World, folder string) error
	// State is what a finished run leaves, without the names that AWS chooses.
	State func(w *World) string
	// Left returns what is wrong after a run that failed by itself. It may be nil.
	Left func(w *World, folder string, failure error) error
	// Refused is the product with an audit that fails. Whatever an earlier run left, it must
	// fail and change nothing: neither share nor publish. It may be nil.
	Refused func(ctx context.Context, client *http.Client, folder string) error
	// Undone says that a run which fails by itself leaves the account as before, except
	// for a pending snapshot that its error names.
	Undone bool
}

// lateness are the behaviours that each fault is combined with.
var lateness = map[string]Behaviour{
	"prompt": {},
	"mild":   Mild(1),
	"late":   {Seen: 7, Behind: 4, Flaps: true, Pending: 3, Gone: 7, Taken: 7},
}

// faults are those that Enumerate tries at each call.
var faults = append(passing, Refused, Stopped, KilledBefore, KilledAfter)

// passing are the faults that end no run: a repeat of the call succeeds.
var passing = []Fault{Crowded, Reset, Lost, Unsure, Twice}

// reading matches the calls that change nothing. Of them, those that are done and lost are
// as those that are not done.
var reading = regexp.MustCompile(`:(Describe|Get|List)`)

// faultsOf are the faults that differ from each other for a call.
func faultsOf(call string) []Fault {
	if reading.MatchString(call) {
		return []Fault{Crowded, Reset, Unsure, Refused, Stopped, KilledBefore}
	}
	return faults
}

// Case is one disturbed run: the first run has the fault Fault at the call Call, or at
// several, with " + " between them. If it fails, the second one has Again at Then.
type Case struct {
	Late  string
	Call  string
	Fault Fault
	Then  string
	Again Fault
}

// String is the line of a case in KeptCases.
func (c Case) String() string {
	line := strings.Join([]string{c.Late, c.Call, string(c.Fault)}, ", ")
	if c.Then == "" {
		return line
	}
	return line + ", " + c.Then + ", " + string(c.Again)
}

// KeptCases has the cases that have ever failed, one a line after its scenario's name.
const KeptCases = "testdata/faults.cases"

func (s Scenario) kept(t testing.TB) (all []Case) {
	text, err := os.ReadFile(KeptCases)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		parts := strings.Split(rest, ", ")
		if _, known := lateness[parts[0]]; !known || len(parts) != 3 && len(parts) != 5 {
			t.Fatalf("%s: %q is no case", KeptCases, line)
		}
		parts = append(parts, "", "")
		if name == s.Name {
			all = append(all, Case{parts[0], parts[1], Fault(parts[2]), parts[3], Fault(parts[4])})
		}
	}
	return all
}

// Outcome is how the first run of a case ended.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "success"
	Resumable Outcome = "resumable failure" // something stays, for the next run
	Clean     Outcome = "clean failure"     // the account is as before
)

// Cases returns every case with one fault, and one of each paired of them also with a
// second fault; 0 is none.
func (s Scenario) Cases(t testing.TB, paired int) []Case {
	var all []Case
	for _, late := range slices.Sorted(maps.Keys(lateness)) {
		calls, _ := s.undisturbed(t, late)
		for n, call := range calls {
			for m, fault := range faultsOf(call) {
				all = append(all, Case{Late: late, Call: call, Fault: fault})
				if paired > 0 && len(all)%paired == 0 { // the same in each run of the test
					all = append(all, Case{late, call, fault, calls[(n*7+m*3)%len(calls)], faults[(n+m)%len(faults)]})
				}
			}
		}
	}
	return all
}

// Sample runs about so many cases, and those that have ever failed.
func (s Scenario) Sample(t testing.TB, most int) {
	all, cases := s.Cases(t, 0), s.kept(t)
	each := max(1, len(all)/most)
	if each%3 == 0 { // so that all of the nine faults are in the sample
		each++
	}
	for n, c := range all {
		if n%each == 0 {
			cases = append(cases, c)
		}
	}
	s.Enumerate(t, cases)
}

// undisturbed returns the calls of a run without faults, and the state that it leaves.
func (s Scenario) undisturbed(t testing.TB, late string) (calls []string, state string) {
	r := s.begin(t, late)
	if err := cmp.Or(r.run(), r.broken); err != nil {
		t.Errorf("%s, %s: an undisturbed run fails: %v\n%s", s.Name, late, err, strings.Join(r.world.Trace(), "\n"))
	}
	return r.world.Trace(), s.State(r.world)
}

// Enumerate runs the cases, on all processors, and reports each broken invariant. It
// logs how many runs ended in which way.
func (s Scenario) Enumerate(t testing.TB, cases []Case) {
	begun := time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // blocks of half a MiB make much garbage
	wants := map[string]string{}
	for late := range lateness {
		_, wants[late] = s.undisturbed(t, late)
	}
	var mutex sync.Mutex
	ended, runs, broken := map[Outcome]int{}, 0, map[string][]string{}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, c := range cases {
		group.Go(func() error {
			outcome, n, err := s.check(t, c, wants[c.Late])
			mutex.Lock()
			defer mutex.Unlock()
			ended[outcome]++
			runs += n
			if err != nil {
				what := chosen.ReplaceAllString(err.Error(), "$1-…")
				broken[what] = append(broken[what], c.String())
			}
			return nil
		})
	}
	_ = group.Wait() // no function fails
	share := func(o Outcome) int { return 100 * ended[o] / max(1, len(cases)) }
	t.Logf("%s: %d cases, %d runs, %s: %d%% success, %d%% resumable failure, %d%% clean failure", s.Name, len(cases), runs,
		time.Since(begun).Round(time.Millisecond), share(Succeeded), share(Resumable), share(Clean))
	for _, what := range slices.Sorted(maps.Keys(broken)) {
		lines := broken[what]
		t.Errorf("%s: %d cases: %s\n%s", s.Name, len(lines), what, strings.Join(lines[:min(len(lines), 4)], "\n"))
	}
}

// chosen matches the IDs that AWS chooses.
var chosen = regexp.MustCompile(`\b(ami|snap)-[0-9a-f]+`)

// check runs a case and returns how its first run ended, and the number of runs.
func (s Scenario) check(t testing.TB, c Case, want string) (Outcome, int, error) {
	r := s.begin(t, c.Late)
	defer os.RemoveAll(r.folder)
	before := s.State(r.world)
	failure := r.disturbed(c.Call, c.Fault)
	outcome := Succeeded
	if failure != nil {
		outcome = Resumable
		if s.State(r.world) == before {
			outcome = Clean
		}
		if slices.Contains(passing, c.Fault) {
			r.fail(fmt.Errorf("a call that can be repeated ends the run: %w", failure))
		}
		byItself := (c.Fault == Refused || c.Fault == Stopped) && !strings.Contains(c.Call, " + ")
		if s.Undone && byItself && outcome != Clean && !strings.Contains(failure.Error(), " stays for ") {
			r.fail(fmt.Errorf("the account is not as before: %w", failure))
		}
	}
	r.refused()
	reruns := 1
	if c.Then != "" {
		reruns = 2
	}
	for n := 1; ; n++ {
		switch {
		case r.broken != nil:
			return outcome, n, r.broken
		case failure == nil:
			if got := s.State(r.world); got != want {
				return outcome, n, fmt.Errorf("the state is not that of an undisturbed run: %s", got)
			}
			return outcome, n, nil
		case n > reruns:
			return outcome, n, fmt.Errorf("no rerun succeeds: %w", failure)
		case n == 1:
			failure = r.disturbed(c.Then, c.Again)
		default:
			failure = r.disturbed("", "")
		}
	}
}

// disturbance is a world with a run.
type disturbance struct {
	Scenario
	world  *World
	folder string
	broken error
}

func (s Scenario) begin(t testing.TB, late string) *disturbance {
	folder, err := os.MkdirTemp(t.TempDir(), "run")
	for _, name := range []string{"records", "ebs"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(folder, name), 0o700))
	}
	w := Light(t, filepath.Join(folder, "ebs"))
	r := &disturbance{Scenario: s, world: w, folder: folder}
	if err := errors.Join(err, s.Begin(w, r.records())); err != nil {
		t.Errorf("%s: %v", s.Name, err)
	}
	w.Behave(lateness[late])
	return r
}

func (r *disturbance) records() string { return filepath.Join(r.folder, "records") }

// fail keeps the first broken invariant.
func (r *disturbance) fail(err error) { r.broken = cmp.Or(r.broken, err) }

func (r *disturbance) disturbed(call string, fault Fault) error {
	b := r.world.front.Behaviour
	if fault != "" {
		b.Faults = map[string]Fault{}
		for one := range strings.SplitSeq(call, " + ") {
			b.Faults[one] = fault
		}
	}
	r.world.front.restart()
	r.world.Behave(b)
	err := r.run()
	r.world.front.restart()
	b.Faults = nil
	r.world.Behave(b)
	return err
}

// refused runs the product with an audit that fails.
func (r *disturbance) refused() {
	if r.Refused == nil {
		return
	}
	before := r.State(r.world)
	if err := r.Refused(context.Background(), r.world.Client(nil), r.records()); err == nil {
		r.fail(errors.New("an audit fails, and the run succeeds"))
	}
	if r.State(r.world) != before {
		r.fail(errors.New("an audit fails, and the run changes the account"))
	}
}

// run runs the product. A killed run leaves its records as they were.
func (r *disturbance) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	saved := ""
	b := r.world.front.Behaviour
	b.Happens = func(f Fault) {
		switch f {
		case Stopped:
			cancel()
		case KilledBefore, KilledAfter:
			cancel()
			if saved == "" && !r.Unsaved {
				saved = filepath.Join(r.folder, "saved")
				r.fail(os.CopyFS(saved, os.DirFS(r.records())))
			}
		}
	}
	r.world.Behave(b)
	err := r.Run(ctx, r.world.Client(func() {
		if r.Moment != nil && r.broken == nil {
			r.fail(r.Moment(r.world, r.records()))
		}
	}), r.records())
	if saved != "" {
		r.fail(errors.Join(os.RemoveAll(r.records()), os.Rename(saved, r.records())))
		if err == nil {
			err = errors.New("killed")
		}
		return err
	}
	if err != nil && r.Left != nil {
		r.fail(r.Left(r.world, r.records(), err))
	}
	return err
}
