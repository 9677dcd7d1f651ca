package diagnose

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"path/filepath"
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
	// part is a place in parts.
	part int
}

// repository is where the thread is.
func (t thread) repository() string {
	name, _, _ := strings.Cut(t.name, "#")
	return name
}

// parts are the parts of the collection, with the least share of logs whose cause
// is named first. The rules were written with the first part in view. The second one
// is only for scoring. The third one was scored before it got rules. The rules were
// mended with the fourth part in view. After that, the fifth was run once, and then the
// rules were mended again. The last one is of programs that were started with a fault.
var parts = []struct {
	name  string
	floor float64
}{{"development", 0.95}, {"scoring", 0.95}, {"later", 0.95}, {"opened", 0.95}, {"held back", 0.9}, {"own programs", 1}}

// threads reads a file of the collection. Its logs belong to one part, or with a
// negative number to one of the first two by their names, or of the last two.
func threads(t *testing.T, file string, part int) []thread {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + file)
	require.NoError(t, err)
	var list []thread
	for _, f := range a.Files {
		head, log, found := strings.Cut(string(f.Data), "\n\n")
		require.True(t, found, f.Name)
		one := thread{name: f.Name, log: log, part: part}
		if part < 0 {
			one.part = int(sha256.Sum256([]byte(f.Name))[0] & 1)
		}
		if part < -1 {
			one.part += 3
		}
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

// collection is all of it.
func collection(t *testing.T) []thread {
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	list := threads(t, "threads.txtar", -1)
	for _, file := range files {
		switch name := filepath.Base(file); name {
		case "threads.txtar":
		case "unseen.txtar":
			list = append(list, threads(t, name, -2)...)
		case "programs.txtar":
			list = append(list, threads(t, name, 5)...)
		default:
			list = append(list, threads(t, name, 2)...)
		}
	}
	return list
}

// hits counts logs, and those whose cause is named first, by part.
type hits struct{ hit, all [6]int }

func (h *hits) String() string {
	var list []string
	for i, part := range parts {
		if h.all[i] > 0 {
			list = append(list, fmt.Sprintf("%s %3d of %3d", part.name, h.hit[i], h.all[i]))
		}
	}
	return strings.Join(list, ", ")
}

// The cause that a thread settled on comes first. Fewer hits than the floors mean
// that a rule became worse; the log shows the hits by repository.
func TestTheCauseOfPublicThreadsComesFirst(t *testing.T) {
	list := collection(t)
	require.GreaterOrEqual(t, len(list), 350)
	total, byRepository, sources := &hits{}, map[string]*hits{}, map[string]bool{}
	for _, one := range list {
		where := byRepository[one.repository()]
		if where == nil {
			where = &hits{}
			byRepository[one.repository()] = where
		}
		got := one.first()
		for _, h := range []*hits{where, total} {
			h.all[one.part]++
			if got == one.cause {
				h.hit[one.part]++
			}
		}
		if got != one.cause && parts[one.part].name != "scoring" && parts[one.part].name != "held back" {
			t.Logf("%s: want %s, got %s", one.name, one.cause, got)
		}
		sources[one.source] = true
	}
	for _, name := range slices.Sorted(maps.Keys(byRepository)) {
		t.Logf("%-50s %s", name, byRepository[name])
	}
	t.Logf("%-50s %s", fmt.Sprintf("%d logs of %d threads", len(list), len(sources)), total)
	for i, part := range parts {
		assert.GreaterOrEqual(t, float64(total.hit[i])/float64(total.all[i]), part.floor, part.name)
	}
}

// Of the causes that come first, those that are called certain or likely are right.
func TestSureCausesAreRight(t *testing.T) {
	right, all := map[Certainty]int{}, map[Certainty]int{}
	for _, one := range collection(t) {
		r := searched(t, "log\n"+one.log)
		if len(r.Findings) == 0 {
			continue
		}
		first := r.Findings[0]
		if all[first.Certainty]++; first.Rule.ID == one.cause {
			right[first.Certainty]++
		} else {
			t.Logf("%s is %s, and not %s for %s", one.name, one.cause, first.Rule.ID, first.Certainty)
		}
	}
	for sure, least := range map[Certainty]float64{Certain: 0.99, Likely: 0.9} {
		t.Logf("%s: %d of %d", sure, right[sure], all[sure])
		assert.GreaterOrEqual(t, float64(right[sure])/float64(all[sure]), least, sure)
	}
}

// No cause is named for a node that joined, or whose log shows a start without a fault.
func TestNoHealthyLogIsBlamed(t *testing.T) {
	healthy := 0
	for _, one := range collection(t) {
		if one.cause == Joined || one.cause == Unknown && one.part >= 3 {
			healthy++
			assert.Equal(t, one.cause, one.first(), one.name)
		}
	}
	assert.Greater(t, healthy, 20)
}

// A thread is in one file only.
func TestNoThreadIsInTwoParts(t *testing.T) {
	known := map[string]bool{}
	for _, one := range collection(t) {
		known[fmt.Sprint(one.source, one.part >= 2)] = true
	}
	for _, one := range threads(t, "threads.txtar", -1) {
		assert.False(t, known[fmt.Sprint(one.source, true)], one.source)
	}
	names := map[string]bool{}
	for _, one := range collection(t) { // a second log of a thread has a further part in its name
		assert.False(t, names[one.name], one.name)
		names[one.name] = true
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
	for _, one := range collection(t) {
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

// A terminal broke the lines. In few logs that changes the cause.
func TestWrappedLogsHaveTheSameCause(t *testing.T) {
	for _, columns := range []int{80, 100, 120, 200} {
		same, all := 0, 0
		for _, one := range collection(t) {
			want, broken := one.first(), ""
			for line := range strings.Lines(one.log) {
				for len(line) > columns {
					broken, line = broken+line[:columns]+"\n", line[columns:]
				}
				broken += line
			}
			one.log = broken
			if all++; one.first() == want {
				same++
			} else {
				t.Logf("%s in %d columns: %s instead of %s", one.name, columns, one.first(), want)
			}
		}
		assert.GreaterOrEqual(t, float64(same)/float64(all), 0.95, "%d columns", columns)
	}
}
