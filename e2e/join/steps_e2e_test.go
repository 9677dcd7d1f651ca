//go:build e2e

package join_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

// row is one line of a report: the image, the first boot, and the result.
type row struct {
	Image    string  `json:"image"`
	Contract string  `json:"contract"`
	Result   string  `json:"result"`
	Message  string  `json:"message,omitempty"`
	Seconds  float64 `json:"seconds"` // since the start of the test
}

// moment is a completed step, with its time in seconds since the start of the
// test.
type moment struct {
	Seconds float64 `json:"seconds"`
	Step    string  `json:"step"`
}

// phase is a part of the test, with its duration in seconds. Some phases run in
// parallel.
type phase struct {
	Phase   string  `json:"phase"`
	Seconds float64 `json:"seconds"`
}

// journal is the record of a test run.
type journal struct {
	Rows   []row    `json:"rows"`
	Phases []phase  `json:"phases"`
	Steps  []moment `json:"steps"`
	// Seconds is the duration of the whole run.
	Seconds float64 `json:"seconds"`
}

func (w *world) elapsed() float64 { return seconds(w.started) }

// seconds returns the time since a moment.
func seconds(since time.Time) float64 { return math.Round(10*time.Since(since).Seconds()) / 10 }

// phase measures a part of the test.
func (w *world) phase(name string, do func()) {
	begin := time.Now()
	do()
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.journal.Phases = append(w.journal.Phases, phase{name, seconds(begin)})
}

// step logs the progress of the test, with the time.
func (w *world) step(format string, args ...any) {
	m := moment{w.elapsed(), fmt.Sprintf(format, args...)}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.journal.Steps = append(w.journal.Steps, m)
	w.t.Logf("[%5.1f s] %s", m.Seconds, m.Step)
}

func (w *world) record(image, contract, result, message string) {
	w.journal.Rows = append(w.journal.Rows, row{image, contract, result, message, w.elapsed()})
}

// report writes the journal as JSON, and as the tables at the end of `make
// e2e`.
func (w *world) report(name string) {
	w.t.Helper()
	w.journal.Seconds = w.elapsed()
	var table strings.Builder
	out := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "image\tfirst boot\tresult\tafter\tmessage")
	for _, r := range w.journal.Rows {
		fmt.Fprintf(out, "%s\t%s\t%s\t%.0f s\t%.120s\n", r.Image, r.Contract, r.Result, r.Seconds, r.Message)
	}
	fmt.Fprintln(out, "\nwhere the time went\tseconds")
	for _, p := range w.journal.Phases {
		fmt.Fprintf(out, "%s\t%.1f\n", p.Phase, p.Seconds)
	}
	fmt.Fprintf(out, "in all\t%.1f\n", w.journal.Seconds)
	require.NoError(w.t, out.Flush())
	text, err := json.MarshalIndent(w.journal, "", "  ")
	require.NoError(w.t, err)
	path := filepath.Join(results(w.t), name)
	require.NoError(w.t, os.WriteFile(path+".json", append(text, '\n'), 0o644))
	require.NoError(w.t, os.WriteFile(path+".txt", []byte(table.String()), 0o644))
	w.t.Logf("%s.json\n%s", path, table.String())
}
