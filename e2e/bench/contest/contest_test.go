package contest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clock is a time that passes only when a contestant works.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func TestTurns(t *testing.T) {
	for _, test := range []struct {
		round, contestants int
		want               []int
	}{
		{0, 1, []int{0}},
		{1, 1, []int{0}},
		{0, 2, []int{0, 1}},
		{1, 2, []int{1, 0}},
		{2, 2, []int{0, 1}},
		{3, 3, []int{2, 1, 0}},
	} {
		assert.Equal(t, test.want, Turns(test.round, test.contestants), test)
	}
}

// contestant writes down what is called, and takes 100 s to prepare and to
// check, which must not count.
func contestant(name string, c *clock, calls *[]string, lasts ...time.Duration) Contestant {
	note := func(what string) { *calls = append(*calls, name+" "+what) }
	return Contestant{
		Name: name,
		Prepare: func(context.Context) error {
			note("prepares")
			c.pass(100 * time.Second)
			return nil
		},
		Run: func(context.Context) (Counts, error) {
			note("runs")
			c.pass(lasts[0])
			lasts = lasts[1:]
			return Counts{"sessions": 2}, nil
		},
		Check: func(context.Context) (Counts, error) {
			note("is checked")
			c.pass(100 * time.Second)
			return Counts{"files": 7}, nil
		},
	}
}

func TestRun(t *testing.T) {
	var (
		c     clock
		calls []string
		log   bytes.Buffer
	)
	second := time.Second
	out, err := Contest{
		Name: "race", Rounds: 3, Now: c.Now, Log: &log,
		Contestants: []Contestant{
			contestant("hare", &c, &calls, 1*second, 3*second, 2*second),
			contestant("tortoise", &c, &calls, 10*second, 10*second, 8*second),
		},
	}.Run(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{
		"hare prepares", "hare runs", "hare is checked", "tortoise prepares", "tortoise runs", "tortoise is checked",
		"tortoise prepares", "tortoise runs", "tortoise is checked", "hare prepares", "hare runs", "hare is checked",
		"hare prepares", "hare runs", "hare is checked", "tortoise prepares", "tortoise runs", "tortoise is checked",
	}, calls)
	assert.Equal(t, []float64{1, 3, 2}, out.Contestants[0].Seconds)
	assert.Equal(t, []float64{10, 10, 8}, out.Contestants[1].Seconds)
	assert.Equal(t, 2.0, out.Contestants[0].Median)
	assert.Equal(t, Counts{"sessions": 2, "files": 7}, out.Contestants[1].Counts)
	assert.Equal(t, 0.2, out.Ratio(1))
	assert.Equal(t, 1.0, out.Ratio(0))
	low, high := out.Spread(1)
	assert.Equal(t, []float64{0.1, 0.3}, []float64{low, high})
	assert.Contains(t, log.String(), "race, round 2 of 3: tortoise took 10.000 s\n")
}

func TestRunStopsAtTheFirstError(t *testing.T) {
	broken := errors.New("it broke")
	for name, test := range map[string]struct {
		spoil func(*Contestant)
		want  string
	}{
		"preparing": {func(c *Contestant) { c.Prepare = func(context.Context) error { return broken } }, "race, round 1 of 2, tortoise: preparing: it broke"},
		"running":   {func(c *Contestant) { c.Run = func(context.Context) (Counts, error) { return nil, broken } }, "race, round 1 of 2, tortoise: it broke"},
		"checking": {func(c *Contestant) { c.Check = func(context.Context) (Counts, error) { return nil, broken } },
			"race, round 1 of 2, tortoise: checking what it did: it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			var c clock
			var calls []string
			bad := contestant("tortoise", &c, &calls, time.Second)
			test.spoil(&bad)
			_, err := Contest{Name: "race", Rounds: 2, Now: c.Now, Log: &bytes.Buffer{},
				Contestants: []Contestant{contestant("hare", &c, &calls, time.Second), bad}}.Run(t.Context())
			require.EqualError(t, err, test.want)
			require.ErrorIs(t, err, broken)
			assert.Equal(t, 1, count(calls, "hare runs"))
		})
	}
}

func TestRunHeedsItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var c clock
	var calls []string
	_, err := Contest{Name: "race", Rounds: 1, Now: c.Now, Log: &bytes.Buffer{},
		Contestants: []Contestant{contestant("hare", &c, &calls, time.Second)}}.Run(ctx)
	require.ErrorIs(t, err, context.Canceled)
	assert.Empty(t, calls)
}

func count(all []string, one string) (n int) {
	for _, each := range all {
		if each == one {
			n++
		}
	}
	return n
}
