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
	// source is the thread's address, cause a rule's ID, joined or unknown. reason is a part of
	// the line that says why, or several. A log of unknown cause without a reason shows no fault.
	source, cause, reason, note, log string
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
// rules were mended again. The sixth one is of programs that were started with a fault. The
// last two are stretches of whole journals, opened and held back in the same way.
var parts = []struct {
	name  string
	floor float64
}{{"development", 0.95}, {"scoring", 0.95}, {"later", 0.95}, {"opened", 0.95}, {"held back", 0.9}, {"own programs", 1},
	{"journals", 0.99}, {"journals held back", 0.98}}

// threads reads a file of the collection. Its logs belong to one part, or with a
// negative number to one of two by their names: -1 is the first two parts, -2 two of those
// from the fourth on, and -3 the last two.
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
			one.part = int(sha256.Sum256([]byte(f.Name))[0]&1) - 3*(part+1)
		}
		_, err := fmt.Sscanf(head, "source: %s\ncause: %s\n", &one.source, &one.cause)
		require.NoError(t, err, f.Name)
		head, one.note, _ = strings.Cut(head, "\nnote: ")
		_, one.reason, _ = strings.Cut(head, "\nreason: ")
		require.NotEmpty(t, one.note, f.Name)
		list = append(list, one)
	}
	return list
}

// report is what the search says about a log.
func (t thread) report() (Report, error) {
	s := NewSearch(context.Background())
	err := s.Log(Log{Name: "log", Text: strings.NewReader(t.log)})
	return s.Report(), err
}

// first is the first cause that a log has.
func (t thread) first() string {
	r, err := t.report()
	switch {
	case err != nil:
		return "error"
	case r.Result() == Found:
		return r.Findings[0].Rule.ID
	}
	return r.Result()
}

// answer says how good the answer to a log is: the right cause, a line with the reason, no
// help, the wrong cause, or a cause for a log without a fault.
func (t thread) answer() string {
	r, err := t.report()
	got, general := t.first(), true
	var shown []string
	if r.Result() == Found {
		general, shown = r.Findings[0].general(), r.Findings[0].Evidence
	}
	if first := r.Unexplained(); first != nil {
		shown = append(shown, first.Line)
	}
	reason := t.reason != "" && slices.ContainsFunc(strings.Split(t.reason, " | "), func(part string) bool {
		return strings.Contains(strings.Join(shown, "\n"), part)
	})
	switch {
	case err != nil:
		return "error"
	case got == t.cause && (got != Unknown || t.reason == ""):
		return "right"
	case general && reason:
		return "reason"
	case (t.cause == Unknown || t.cause == Joined) && t.reason == "":
		return "blamed"
	case general:
		return "no help"
	}
	return "wrong"
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
		case "journals.txtar":
			list = append(list, threads(t, name, -3)...)
		default:
			list = append(list, threads(t, name, 2)...)
		}
	}
	return list
}

// hits counts logs, and those whose cause is named first, by part.
type hits struct{ hit, all [8]int }

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
	total, byRepository, sources, answers := &hits{}, map[string]*hits{}, map[string]bool{}, map[string]int{}
	for _, one := range list {
		where := byRepository[one.repository()]
		if where == nil {
			where = &hits{}
			byRepository[one.repository()] = where
		}
		part, got := parts[one.part].name, one.answer()
		answers[part+": "+got]++
		for _, h := range []*hits{where, total} {
			h.all[one.part]++
			if got == "right" || got == "reason" {
				h.hit[one.part]++
			}
		}
		if got != "right" && part != "scoring" && !strings.HasSuffix(part, "held back") {
			t.Logf("%s: want %s, got %s: %s", one.name, one.cause, one.first(), got)
		}
		sources[one.source] = true
	}
	for _, name := range slices.Sorted(maps.Keys(byRepository)) {
		t.Logf("%-50s %s", name, byRepository[name])
	}
	t.Logf("%-50s %s", fmt.Sprintf("%d logs of %d threads", len(list), len(sources)), total)
	for _, answer := range slices.Sorted(maps.Keys(answers)) {
		t.Logf("%-50s %d", answer, answers[answer])
	}
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
		if one.cause == Joined || one.cause == Unknown && one.part >= 3 && one.reason == "" {
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
