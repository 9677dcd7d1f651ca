package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// The commands, as reports name them.
const (
	provision = "provision"
	audit     = "audit"
)

// ItemName is the name of a command's items: step, or rule.
func ItemName(command string) string {
	if command == provision {
		return "step"
	}
	return "rule"
}

func nothing(command, phase string) string {
	switch {
	case command == audit:
		return "nothing left"
	case command == provision:
		return "nothing to do"
	}
	return "nothing to " + cmp.Or(map[string]string{
		"quiesce": "stop", "unmount": "unmount", "restore": "restore", "inspect": "decide",
	}[phase], "remove")
}

// Amounts are removed files and fetched bytes; planned says that the removal
// has not happened.
func Amounts(t plan.Totals, planned bool) []string {
	var parts []string
	if t.Entries > 0 || t.Bytes > 0 {
		verb := "removed"
		if planned {
			verb = "to remove"
		}
		freed := show.Size(t.Bytes)
		if t.Entries > 0 { // emptying a file removes bytes alone
			freed = fmt.Sprintf("%s (%s)", show.Count(t.Entries, "file"), freed)
		}
		parts = append(parts, freed+" "+verb)
	}
	if t.Fetched > 0 {
		parts = append(parts, show.Size(t.Fetched)+" fetched")
	}
	return parts
}

// PhaseLine sums up one phase, such as "state: 17 rules, nothing to remove".
func PhaseLine(command string, p plan.PhaseTotals) string {
	parts := []string{p.Phase + ": " + show.Count(p.Items, ItemName(command))}
	if p.Skipped == p.Items {
		return parts[0] + ", not started"
	}
	failed := "failed"
	if command == audit {
		failed = "could not run"
	}
	switch {
	case p.Changed > 0:
		parts = append(parts, fmt.Sprintf("%d changed", p.Changed))
	case p.Actions > 0 && command == audit:
		parts = append(parts, show.Count(p.Actions+p.Findings, "finding"))
	case p.Actions+p.Findings+p.Failed == 0:
		parts = append(parts, nothing(command, p.Phase))
	}
	parts = append(parts, Amounts(p.Totals, command == audit)...)
	if p.Findings > 0 && !(p.Actions > 0 && command == audit) {
		parts = append(parts, show.Count(p.Findings, "finding"))
	}
	if p.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", p.Failed, failed))
	}
	if p.Milliseconds >= 1000 || p.Milliseconds > 0 && p.Changed+p.Failed > 0 {
		parts = append(parts, show.Length(time.Duration(p.Milliseconds)*time.Millisecond))
	}
	return strings.Join(parts, ", ")
}

// Verdict sums up the run on one line.
func Verdict(r *plan.Report) string {
	parts := []string{
		fmt.Sprintf("%s %s: %s", r.Command, r.Result, show.Count(r.Totals.Items, ItemName(r.Command))),
	}
	if r.Result != plan.DryRun {
		parts = append(parts, fmt.Sprintf("%d changed", r.Totals.Changed))
	}
	parts = append(parts, show.Count(r.Totals.Actions, "action"))
	parts = append(parts, Amounts(r.Totals, len(r.Plan) > 0)...)
	if r.Totals.Findings > 0 {
		parts = append(parts, show.Count(r.Totals.Findings, "finding"))
	}
	var failed []string
	skipped := 0
	for _, o := range r.Outcomes {
		switch o.Status {
		case plan.Failed:
			failed = append(failed, o.Item)
		case plan.Skipped:
			skipped++
		}
	}
	if len(failed) > 0 {
		parts = append(parts, fmt.Sprintf("%d failed (%s)", len(failed), strings.Join(failed, ", ")))
	}
	if skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d not started", skipped))
	}
	if r.Result == plan.DryRun {
		parts[len(parts)-1] += "; nothing was changed"
	}
	return strings.Join(append(parts, show.Length(r.Finished.Sub(r.Started))), ", ")
}

// AuditLine sums up the audit that ends a scrub, on one line; it is empty for
// other runs.
func AuditLine(r *plan.Report) string {
	switch {
	case r.Audit != nil:
		return r.Audit.String()
	case r.Command == "scrub" && (r.Result == plan.OK || r.Result == plan.Findings):
		return plan.NoAudit
	}
	return ""
}

// Table is the closing table of a report: what the image now has, or what a
// scrub removed in each phase. It is empty for other reports.
func Table(r *plan.Report) []string {
	switch {
	case r.Image != nil:
		return contents(r)
	case r.Command == "scrub" && len(r.Phases) > 0:
		return removed(r)
	}
	return nil
}

func contents(r *plan.Report) []string {
	rows := [][]string{{"Kubernetes", r.Image.Kubernetes}}
	for _, c := range r.Image.Components {
		size := ""
		if c.Bytes > 0 {
			size = show.Size(c.Bytes)
		}
		rows = append(rows, []string{c.Name, c.Version, size, string(c.Origin)})
	}
	added := 0
	for _, p := range r.Image.Packages {
		if p.Added {
			added++
		}
	}
	rows = append(rows, []string{"packages", fmt.Sprintf("%d, %d added", len(r.Image.Packages), added)})
	rows = append(rows, []string{"images", fmt.Sprint(len(r.Image.Images))})
	for _, i := range r.Image.Images {
		size := ""
		if i.Bytes > 0 {
			size = show.Size(i.Bytes)
		}
		rows = append(rows, []string{"", i.Name, size})
	}
	rows = append(rows, []string{"fetched", show.Size(r.Totals.Fetched)})
	return append([]string{"The image now has:"}, aligned(rows)...)
}

func removed(r *plan.Report) []string {
	title := "The scrub removed"
	if len(r.Outcomes) == 0 {
		title = "The scrub would remove"
	}
	if r.Totals.Entries == 0 && r.Totals.Bytes == 0 {
		return []string{title + " nothing."}
	}
	var rows [][]string
	for _, p := range r.Phases {
		if p.Entries > 0 || p.Bytes > 0 {
			rows = append(rows, []string{p.Phase, show.Count(p.Entries, "file"), show.Size(p.Bytes)})
		}
	}
	rows = append(rows, []string{"total", show.Count(r.Totals.Entries, "file"), show.Size(r.Totals.Bytes)})
	return append([]string{title + ":"}, aligned(rows)...)
}

// aligned joins the cells of rows in columns, without spaces at the ends.
func aligned(rows [][]string) []string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			widths = append(widths, make([]int, max(0, i+1-len(widths)))...)
			widths[i] = max(widths[i], len(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		line := " "
		for i, cell := range row {
			line += fmt.Sprintf(" %-*s", widths[i]+1, cell)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return slices.Clip(lines)
}

// Transfer prints the progress of an upload or a download. Its methods may be
// called concurrently.
type Transfer struct {
	// Say prints a line.
	Say func(line string)
	// Now is the clock.
	Now func() time.Time
	// Every is the shortest time between two lines.
	Every time.Duration

	mutex sync.Mutex
	// samples are the states of the last seconds, oldest first.
	samples []sample
	spoke   time.Time
}

// sample is a state of a transfer, in bytes.
type sample struct {
	at          time.Time
	done, moved int64
}

// window is how much of the past counts for the rate.
const window = 20 * time.Second

// Print prints a line about a transfer if the last line is long enough ago. Of total
// bytes, done are finished, and moved are those that were sent or received; a total of 0 is
// unknown.
func (t *Transfer) Print(done, moved, total int64) {
	if line, due := t.line(done, moved, total); due {
		t.Say(line)
	}
}

func (t *Transfer) line(done, moved, total int64) (string, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	now := t.Now()
	if len(t.samples) == 0 {
		t.samples, t.spoke = []sample{{now, done, moved}}, now
		return "", false
	}
	if now.Sub(t.spoke) < t.Every {
		return "", false
	}
	t.spoke = now
	for len(t.samples) > 1 && now.Sub(t.samples[1].at) >= window {
		t.samples = t.samples[1:]
	}
	past := t.samples[0]
	t.samples = append(t.samples, sample{now, done, moved})
	seconds := now.Sub(past.at).Seconds()
	said := show.Size(done)
	if total > 0 {
		said = fmt.Sprintf("%d %% of %s", 100*done/total, show.Size(total))
	}
	if seconds <= 0 {
		return said, true
	}
	said += fmt.Sprintf(", %.1f MB/s", float64(moved-past.moved)/1e6/seconds)
	if gained := done - past.done; gained > 0 && done < total {
		left := time.Duration(float64(total-done) / float64(gained) * seconds * float64(time.Second))
		said += ", " + show.Length(left.Round(time.Second)) + " left"
	}
	return said, true
}
