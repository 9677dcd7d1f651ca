package contest

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Contestant is one way to the end.
type Contestant struct {
	Name string
	// Prepare puts everything where a run begins. It is not timed.
	Prepare func(context.Context) error
	// Run is what is timed. What it counts beside the time (sessions, bytes)
	// is in the answer, by a name that says the unit.
	Run func(context.Context) (Counts, error)
	// Check says whether the end was reached. It is not timed. Counts that need
	// a look at the machine come from here; they join those of Run.
	Check func(context.Context) (Counts, error)
}

// Counts are what a run counts beside its time, such as {"sessions": 2}.
type Counts map[string]float64

// Contest is a number of contestants and how often each runs.
type Contest struct {
	Name        string
	Contestants []Contestant
	Rounds      int
	// Now tells the time.
	Now func() time.Time
	// Log says what is run while it is run.
	Log io.Writer
}

// Run runs the contest. The first error ends it: a contestant that fails has
// no time to compare.
func (c Contest) Run(ctx context.Context) (Outcome, error) {
	out := Outcome{Name: c.Name, Contestants: make([]Timing, len(c.Contestants))}
	for i, one := range c.Contestants {
		out.Contestants[i] = Timing{Name: one.Name, counts: map[string][]float64{}}
	}
	for round := range c.Rounds {
		for _, i := range Turns(round, len(c.Contestants)) {
			one := c.Contestants[i]
			seconds, counts, err := c.once(ctx, one)
			if err != nil {
				return out, fmt.Errorf("%s, round %d of %d, %s: %w", c.Name, round+1, c.Rounds, one.Name, err)
			}
			fmt.Fprintf(c.Log, "  %s, round %d of %d: %s took %.3f s\n", c.Name, round+1, c.Rounds, one.Name, seconds)
			out.Contestants[i].add(seconds, counts)
		}
	}
	return out, nil
}

func (c Contest) once(ctx context.Context, one Contestant) (seconds float64, counts Counts, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, nil, err
	}
	if err := one.Prepare(ctx); err != nil {
		return 0, nil, fmt.Errorf("preparing: %w", err)
	}
	begin := c.Now()
	counts, err = one.Run(ctx)
	seconds = c.Now().Sub(begin).Seconds()
	if err != nil {
		return 0, nil, err
	}
	more, err := one.Check(ctx)
	if err != nil {
		return 0, nil, fmt.Errorf("checking what it did: %w", err)
	}
	all := Counts{}
	for _, some := range []Counts{counts, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return seconds, all, nil
}

// Turns is the order in which n contestants run in a round, counted from 0:
// A B, B A, A B …, so that a machine that grows slower or faster favours none.
func Turns(round, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
		if round%2 == 1 {
			order[i] = n - 1 - i
		}
	}
	return order
}
