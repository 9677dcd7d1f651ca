package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Failure is the line that says why something failed.
type Failure struct {
	// Unit is the systemd unit or the program that wrote the line. Without either it
	// is the log.
	Unit string `json:"unit"`
	// Line has the line and its place.
	Line string `json:"line"`
	// Fact is what the line says.
	Fact
	// Context has up to contextMost lines of the same program around the line.
	Context []string `json:"context,omitempty"`

	rank rank
	by   string    // who wrote the line, or empty
	last int       // number of the line's last part
	at   time.Time // zero without a time
}

// contextMost is how many lines of context a failure keeps.
const contextMost = 5

// rank says how much a line explains. Lower is better.
type rank int

const (
	fatal rank = iota // a service or a script of the node ended because of it
	bad               // its level or its words are those of an error
	weak              // an error inside a message of another level
	usual             // healthy nodes write it too, or another line is its reason
)

// before says whether a failure explains more than another one or is the earlier one.
// Failures without a time come after those with one.
func (f *Failure) before(other *Failure) bool {
	switch {
	case other == nil:
		return true
	case f.rank != other.rank:
		return f.rank < other.rank
	case f.at.IsZero() || other.at.IsZero():
		return !f.at.IsZero()
	default:
		return f.at.Before(other.at)
	}
}

// statusOf adds the unit to the lines of systemctl status that say how its process ended.
// Its first line names the unit.
func (r *reading) statusOf(line string) string {
	text := strings.TrimLeft(line, " ")
	switch {
	case strings.HasPrefix(text, "● ") || strings.HasPrefix(text, "× "):
		r.status = unitIn().FindString(text)
	case strings.HasPrefix(text, "Main PID: ") && r.status != "":
		return r.status + ": " + text
	}
	return line
}

// seen is a line with its place and what its head says.
type seen struct {
	*template
	line   string
	number int
	about  journalEntry
	rest   bool // the line may be the rest of one that a terminal or a web form broke
}

// goesOn are texts of lines with the reason of the line before: of Java, Rust and OpenSSL.
var goesOn = []string{"aused by: ", ":error:"}

// recentMost is how many lines before the end of a service its reason is looked for.
const recentMost = 40

// judge keeps a line, or that before it which is its reason, if it is the boot's first
// failure.
func (r *reading) judge(now seen) {
	first := r.now.first
	switch {
	case first == nil:
	case now.number == first.last+1 && len(first.Line) < 2*longest &&
		(now.rest || now.by == first.by && (strings.HasSuffix(first.Line, "=<") || hasOne(now.line, goesOn))):
		first.Line, first.last = first.Line+" "+shorten(now.line, now.at), now.number
	case len(first.Context) < contextMost && now.by == first.by:
		first.Context = append(first.Context, r.shown(now))
	}
	looks := (first == nil || first.rank > bad || len(r.now.errors) < errorsMost) && now.bad
	if looks {
		r.now.errors.add(now.kind, func() string {
			return fmt.Sprintf("%s:%d: %s", r.name, now.number, shorten(now.line, 0))
		})
	}
	if first == nil || first.rank > fatal {
		switch {
		case now.ends:
			reason, found := r.reasonOf(now)
			switch {
			case found && nodeUnit().MatchString(unitOf(now)):
				r.blame(reason, fatal)
			case found:
				r.blame(reason, bad)
			default:
				r.blame(now, bad)
			}
		case first != nil && first.rank <= bad: // only the end of a service says more
		case !looks && now.class == "" && !(now.word && errorWords().MatchString(now.line)):
			if first == nil && slices.Contains(warnings, now.level) { // better than nothing
				r.blame(now, usual)
			}
		case now.follows || now.harmless || strings.Contains(now.line, "TLS handshake error from"):
			r.blame(now, usual)
		case looks && now.class == Late && first != nil && slices.Contains(words().Unreached, first.Class) &&
			first.by == now.by:
			first.rank = bad // what the program waited for
		case (looks || slices.Contains(words().OfMachine, now.class) && !now.calm) && !now.aside:
			r.blame(now, bad)
		case now.class == "" && (now.aside || now.calm), strings.Contains(now.line[:min(len(now.line), longest)],
			"DEBUG"):
			r.blame(now, usual)
		default:
			r.blame(now, weak)
		}
	}
	r.recent[r.count%recentMost] = now
	r.count++
}

// unitOf is the unit whose end a line reports, or the program that wrote the line.
func unitOf(l seen) string {
	if unit := unitIn().FindString(l.line[:min(len(l.line), longest)]); unit != "" {
		return unit
	}
	if _, unit, found := strings.Cut(l.line, "'unit="); found && l.ends { // a record of audit
		unit, _, _ = strings.Cut(unit, " ")
		return unit
	}
	if strings.Contains(l.line, "/var/lib/cloud/") || strings.Contains(l.line, "scripts") {
		return "cloud-init"
	}
	return l.by
}

// reasonOf is the line before the end of a service or a script that says why: of the
// same program the last one with a known error, else with an error, else the last one.
func (r *reading) reasonOf(end seen) (reason seen, found bool) {
	if strings.Contains(end.line, ": Main PID: ") { // the unit's own lines follow
		return reason, false
	}
	unit, left := strings.TrimSuffix(unitOf(end), ".service"), recentMost
	var last, looks, other seen
	for i := r.count - 1; i >= max(0, r.count-recentMost) && left > 0; i-- {
		l := r.recent[i%recentMost]
		by := strings.Trim(strings.TrimSuffix(l.by, ".service"), "()")
		if by != "" && by != unit && (by == "systemd" || !strings.HasPrefix(unit, by)) &&
			!strings.HasSuffix(unit, "."+by) && !(unit == "cloud-init" && end.by == "") {
			if other.line == "" && by != "systemd" && !l.aside && (l.class != "" || l.bad) {
				other = l // a unit may run a program of another name
			}
			continue
		}
		if left--; strings.TrimSpace(l.line) == "" || l.ends || l.follows || l.harmless {
			continue
		}
		if last.line == "" && (by != "" || !strings.Contains(end.line, "FAILED")) { // a console lists other units
			last = l
		}
		if looks.line == "" && l.bad {
			looks, left = l, min(left, contextMost) // its reason is near
		}
		if l.class != "" {
			return l, true
		}
	}
	switch {
	case looks.line != "":
		last = looks
	case last.line == "":
		last = other
	}
	return last, last.line != ""
}

func (r *reading) shown(l seen) string {
	return fmt.Sprintf("%s:%d: %s", r.name, l.number, shorten(l.line, l.at))
}

// blame makes a line the boot's first failure, unless another one explains more.
func (r *reading) blame(l seen, why rank) {
	if first := r.now.first; first != nil && first.rank <= why {
		return
	}
	f := failureOf(r.name, r.shown(l), l.line, r.timed, l.about)
	f.rank, f.by, f.last = why, l.by, l.number
	f.Fact = about(l.line, l.class, l.at).fact()
	for i := max(0, r.count-recentMost); i < r.count; i++ {
		if near := r.recent[i%recentMost]; near.number != l.number && near.by == f.by {
			f.Context = append(f.Context, r.shown(near))
		}
	}
	f.Context = f.Context[max(0, len(f.Context)-contextMost+2):]
	r.now.first = f
}
