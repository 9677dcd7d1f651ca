package diagnose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// thread is a log that somebody showed in public.
type thread struct {
	// name is repository#number, with a further part for a second log.
	name string
	// source is the thread's address, cause a rule's ID, joined or unknown.
	source, cause, note, log string
}

// repository is where the thread is.
func (t thread) repository() string {
	name, _, _ := strings.Cut(t.name, "#")
	return name
}

// forScoring says whether the log is only for scoring. Rules are written with the
// other half in view.
func (t thread) forScoring() bool { return sha256.Sum256([]byte(t.name))[0]&1 == 1 }

// threads reads the collection.
func threads(t *testing.T) []thread {
	t.Helper()
	a, err := txtar.ParseFile("testdata/threads.txtar")
	require.NoError(t, err)
	var list []thread
	for _, f := range a.Files {
		head, log, found := strings.Cut(string(f.Data), "\n\n")
		require.True(t, found, f.Name)
		one := thread{name: f.Name, log: log}
		_, err := fmt.Sscanf(head, "source: %s\ncause: %s\n", &one.source, &one.cause)
		require.NoError(t, err, f.Name)
		_, one.note, _ = strings.Cut(head, "\nnote: ")
		require.NotEmpty(t, one.note, f.Name)
		list = append(list, one)
	}
	return list
}

// first is the first cause that a log has.
func (t thread) first() string {
	s := NewSearch(context.Background())
	if s.Log(Log{Name: "log", Text: strings.NewReader(t.log)}) != nil {
		return "error"
	}
	if found := s.Report().Findings; len(found) > 0 {
		return found[0].Rule.ID
	}
	return "unknown"
}

// The shares of logs whose cause is named first, for development and for scoring.
const developmentFloor, scoringFloor = 0.95, 0.90

// The cause that a thread settled on comes first. Fewer hits than the floors mean
// that a rule became worse; the log shows the hits by repository.
func TestTheCauseOfPublicThreadsComesFirst(t *testing.T) {
	list := threads(t)
	require.GreaterOrEqual(t, len(list), 150)
	type score struct{ hits, all [2]int }
	scores, halves := map[string]*score{}, score{}
	for _, one := range list {
		half := 0
		if one.forScoring() {
			half = 1
		}
		where := scores[one.repository()]
		if where == nil {
			where = &score{}
			scores[one.repository()] = where
		}
		for _, s := range []*score{where, &halves} {
			s.all[half]++
		}
		if got := one.first(); got == one.cause {
			where.hits[half]++
			halves.hits[half]++
		} else if half == 0 {
			t.Logf("%s: want %s, got %s", one.name, one.cause, got)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(scores)) {
		s := scores[name]
		t.Logf("%-52s development %2d of %2d, scoring %2d of %2d", name, s.hits[0], s.all[0], s.hits[1], s.all[1])
	}
	for half, floor := range []float64{developmentFloor, scoringFloor} {
		share := float64(halves.hits[half]) / float64(halves.all[half])
		t.Logf("%s: %d of %d, %.0f %%", []string{"development", "scoring"}[half], halves.hits[half], halves.all[half], 100*share)
		assert.GreaterOrEqual(t, share, floor)
	}
}
