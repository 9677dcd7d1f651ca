package diagnose

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
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
	r := s.Report()
	if r.Result() == Found {
		return r.Findings[0].Rule.ID
	}
	return r.Result()
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

// around is what stands around a program's line in other forms of a log.
var around = map[string]func(line string) string{
	"journal": func(line string) string {
		return "Nov 20 20:11:12 ip-10-0-1-2.eu-west-1.compute.internal program[640]: " + line
	},
	"precise":   func(line string) string { return "2026-11-20T20:11:12.325154+0000 ip-10-0-1-2 program[640]: " + line },
	"localized": func(line string) string { return "11月 20 20:11:12 ip-10-0-1-2 program[640]: " + line },
	"console":   func(line string) string { return "[  306.325154] cloud-init[1790]: " + line + "\r" },
	"json":      func(line string) string { return wrapped("MESSAGE", line) },
	"container": func(line string) string { return wrapped("log", line+"\n") },
	"cri":       func(line string) string { return "2026-11-20T20:11:12.325154898Z stderr F " + line },
	"web page":  html.EscapeString,
	"colours":   func(line string) string { return "\x1b[0;1;31m" + line + "\x1b[0m" },
	"colours 2": func(line string) string { return "#033[0;1;31m" + line + "#033[0m" },
	"typed":     strings.NewReplacer(`"`, "\u201c", "'", "\u2019", " ", "\u00a0").Replace,
	"reply":     func(line string) string { return "> " + line },
}

func wrapped(name, text string) string {
	b, err := json.Marshal(map[string]string{name: text})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// A cause is found in every form of a log.
func TestTheFormOfALogDoesNotChangeItsCause(t *testing.T) {
	for _, one := range threads(t) {
		want := one.first()
		for name, form := range around {
			other := one
			var all []string
			for _, line := range strings.Split(strings.TrimSuffix(one.log, "\n"), "\n") {
				all = append(all, form(line))
			}
			other.log = strings.Join(all, "\n")
			assert.Equal(t, want, other.first(), "%s as %s", one.name, name)
		}
	}
}
