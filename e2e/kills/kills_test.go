//go:build e2e

package kills_test

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/watch"
)

var (
	kills = flag.Int("kills", 6, "number of kills of each command")
	seed  = flag.Uint64("seed", 0, "seed of the random kill points; 0 chooses a random seed")
)

// moment is the unit of a kill point.
type moment string

const (
	ownChange moment = "change of eksnode's own" // the n-th change that eksnode itself is about to make
	anyChange moment = "change"                  // the n-th change, including those of apt, dpkg and their scripts
	atTime    moment = "part of the duration"    // any point in time
)

// blow is one kill.
type blow struct {
	moment moment
	part   float64 // fraction of an undisturbed run, in the unit
	all    bool    // whether the child processes of eksnode die too
}

func (b blow) String() string {
	whom := "eksnode"
	if b.all {
		whom = "everything"
	}
	return fmt.Sprintf("%s killed at %.3f, by %s", whom, b.part, b.moment)
}

// draw draws a random kill.
func draw(r *rand.Rand) blow {
	moments := []moment{ownChange, anyChange, atTime}
	return blow{moment: moments[r.IntN(len(moments))], part: r.Float64(), all: r.IntN(2) == 0}
}

// length is the length of a run in each unit of moments.
type length struct {
	own, any int
	time     time.Duration
}

// act is a command to kill, and its starting state.
type act struct {
	name  string
	from  *start
	ready string // script that prepares the machine for the command
	args  []string
	whole length
	want  testkit.Tree
}

// hits reports whether a run with so many changes is at the kill point.
func (b blow) hits(done, whole length, own bool) bool {
	switch b.moment {
	case ownChange:
		return own && done.own == 1+int(b.part*float64(whole.own))
	case anyChange:
		return done.any == 1+int(b.part*float64(whole.any))
	default:
		return false
	}
}

// run runs the act's command until it ends or is killed. A kill may come too
// late. Processes that the command started may continue. Read the length only
// after they have ended.
func (a *act) run(n *node, b blow) (done *length, killed bool) {
	n.t.Helper()
	done = &length{}
	j := n.job(a.args...)
	strike := sync.OnceFunc(j.killOnly)
	if b.all {
		strike = sync.OnceFunc(j.killAll)
	}
	begin := time.Now()
	watched, err := watch.Start(j.Cmd, func(thread int) bool {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", thread)) // the process may have ended
		own := string(name) == "eksnode\n"
		done.any++
		if own {
			done.own++
		}
		if !b.hits(*done, a.whole, own) {
			return true
		}
		strike()
		return !b.all && !own
	})
	require.NoError(n.t, err)
	if b.moment == atTime {
		defer time.AfterFunc(time.Duration(b.part*float64(a.whole.time)), strike).Stop()
	}
	err = watched.Wait()
	done.time = time.Since(begin)
	var exit *exec.ExitError
	killed = errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if !killed {
		require.NoError(n.t, err, "%s\n%s", strings.Join(a.args, " "), j.said())
	}
	return done, killed
}

// undisturbed runs the act's command without a kill, and returns the machine.
func (a *act) undisturbed(t *testing.T, w *world) *node {
	t.Helper()
	n := w.boot(t, a.from.layers)
	n.sh(a.ready)
	whole, _ := a.run(n, blow{})
	n.quiet()
	a.whole, a.want = *whole, n.look(a.from)
	t.Logf("%s: %s, %d changes, %d of them by eksnode itself; %d paths", a.name, a.whole.time.Round(time.Millisecond), a.whole.any, a.whole.own, len(a.want))
	return n
}

// round kills the command once and runs it again to its end. The machine must
// then equal an undisturbed one.
func (a *act) round(t *testing.T, w *world, r *rand.Rand) {
	t.Helper()
	for {
		b := draw(r)
		n := w.boot(t, a.from.layers)
		n.sh(a.ready)
		if _, killed := a.run(n, b); !killed {
			n.end()
			continue // the run ended before the kill
		}
		t.Log(b)
		again := n.job(a.args...)
		require.NoError(t, again.Run(), "the next run fails: %s", again.said())
		n.quiet()
		assert.Empty(t, n.look(a.from).Since(a.want), "the machine differs from an undisturbed one. The next run printed:\n%s", again.said())
		return
	}
}

// TestKills kills a provision, a scrub and first boots at random points.
func TestKills(t *testing.T) {
	w := open(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	for _, a := range w.acts(t) {
		t.Run(a.name, func(t *testing.T) {
			begin := time.Now()
			t.Run("undisturbed", func(t *testing.T) {
				want := a.want
				a.undisturbed(t, w)
				assert.Empty(t, a.want.Since(want), "undisturbed runs differ")
			})
			t.Run("rounds", func(t *testing.T) {
				for i := range *kills {
					t.Run(fmt.Sprintf("round_%d", i), func(t *testing.T) {
						t.Parallel()
						h := fnv.New64()
						fmt.Fprint(h, a.name, i)
						a.round(t, w, rand.New(rand.NewPCG(*seed, h.Sum64())))
					})
				}
			})
			t.Logf("%d kills of %s took %s", *kills, a.name, time.Since(begin).Round(time.Second))
		})
	}
}

// after returns the start for the next act from a machine whose run has ended.
func after(from *start, n *node) *start {
	n.end()
	return &start{layers: slices.Insert(slices.Clone(from.layers), 0, n.upper())}
}
