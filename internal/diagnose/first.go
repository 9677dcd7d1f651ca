package diagnose

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// journalEntry is what the JSON around a line says about it.
type journalEntry struct {
	unit string
	at   time.Time // zero without a time
	boot string    // ID
}

// fill adds what another entry says.
func (e *journalEntry) fill(from journalEntry) {
	e.unit = cmp.Or(e.unit, from.unit)
	if e.at.IsZero() {
		e.at = from.at
	}
}

var (
	// unitFields are the fields with a line's unit, the best first: UNIT is what systemd's
	// line is about.
	unitFields = []string{"UNIT", "_SYSTEMD_UNIT", "SYSLOG_IDENTIFIER", "systemd_unit", "ident", "reportingComponent"}
	timeFields = []string{"time", "lastTimestamp", "timestamp"}
)

// entryOf reads the fields of journalctl, container runtimes, Fluent Bit, CloudWatch
// and Kubernetes events.
func entryOf(fields map[string]json.RawMessage) (e journalEntry) {
	e.boot, _ = textOf(fields["_BOOT_ID"])
	for _, name := range unitFields {
		if text, ok := textOf(fields[name]); ok && unitName().MatchString(text) {
			e.unit = text
			break
		}
	}
	if text, ok := textOf(fields["__REALTIME_TIMESTAMP"]); ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			e.at = yearless(time.UnixMicro(n))
		}
		return e
	}
	for _, name := range timeFields {
		var milliseconds int64
		switch text, ok := textOf(fields[name]); {
		case fields[name] == nil || !e.at.IsZero():
		case ok:
			e.at = moment(text)
		case json.Unmarshal(fields[name], &milliseconds) == nil:
			e.at = yearless(time.UnixMilli(milliseconds))
		}
	}
	return e
}

const unitText = `[A-Za-z0-9@_:\\-][A-Za-z0-9@_:.\\-]*`

var (
	unitName = once(`^` + unitText + `$`)
	// program matches the identifier of a syslog line: with its process at the start of
	// a line or after a console's seconds, or after the time and the host.
	program = sync.OnceValue(func() *regexp.Regexp {
		const name = `([A-Za-z][\w@.-]*)`
		return regexp.MustCompile(`(?:^|\] )` + name + `\[\d+\]: ` +
			`|^(?:[^ ]+ +\d\d? |\d{4}-\d\d-\d\dT)\d\d:\d\d:\d\d[^ ]* [^ ]+ ` + name + `(?:\[\d+\])?: `)
	})
	// ofKernel matches the kernel's lines on a console.
	ofKernel = once(`^\[ *\d+\.\d{6}\] `)
	// unitIn matches the unit that a line of systemd is about.
	unitIn = once(`\b(` + unitText + `\.(?:service|mount|socket|target|device|swap))\b`)
	// moments matches the time at the start of a line.
	moments = sync.OnceValue(func() *regexp.Regexp {
		const clock = `(\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)`
		return regexp.MustCompile(`(?:^|[ \]])[EFIW](\d\d)(\d\d) ` + clock + // klog
			`|\d{4}[-/](\d\d)[-/](\d\d)[T ]` + clock + ` ?(Z|[+-]\d\d:?\d\d)?` +
			`|^([^\s\d]{3,5}|\d{1,2}月|\d{1,2}월) *(\d\d?)[日일]? ` + clock + // syslog
			`|\b(\d\d?) ([A-Z][a-z]{2}) \d{4} ` + clock + ` ([+-]\d{4})` + // cloud-init
			`|"ts": ?(\d{9,10})(?:\.(\d{1,9}))?`) // zap
	})
)

// month is the number of a month's name or number, or 0.
func month(text string) int {
	text = strings.ToLower(text)
	if n, err := strconv.Atoi(strings.TrimRight(text, "月월")); err == nil {
		return n
	}
	return slices.IndexFunc(words().Months, func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(text, name) })
	}) + 1
}

// momentMost is where in a line its time is looked for, in bytes.
const momentMost = 200

// moment is the time at the start of a line, or zero. Most programs write no year, so no
// time has one: logs are those of one start.
func moment(line string) time.Time {
	m := moments().FindStringSubmatch(line[:min(len(line), momentMost)])
	switch {
	case m == nil:
		return time.Time{}
	case m[1] != "":
		return date(number(m[1]), m[2], m[3], "")
	case m[4] != "":
		return date(number(m[4]), m[5], m[6], m[7])
	case m[8] != "":
		return date(month(m[8]), m[9], m[10], "")
	case m[11] != "":
		return date(month(m[12]), m[11], m[13], m[14])
	default:
		return yearless(time.Unix(int64(number(m[15])), int64(number((m[16] + "000000000")[:9]))))
	}
}

// number reads digits.
func number(digits string) int {
	n, _ := strconv.Atoi(digits) // the expressions match only digits
	return n
}

// date is a time in a leap year, or zero if there is no such time.
func date(month int, day, clock, zone string) time.Time {
	at, err := time.Parse("15:04:05", strings.ReplaceAll(clock, ",", "."))
	if err != nil || month < 1 || month > 12 {
		return time.Time{}
	}
	at = time.Date(2000, time.Month(month), number(day), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
	if in, err := time.Parse("-0700", strings.ReplaceAll(zone, ":", "")); err == nil {
		_, offset := in.Zone()
		at = at.Add(-time.Duration(offset) * time.Second)
	}
	return at
}

func yearless(at time.Time) time.Time {
	at = at.UTC()
	return time.Date(2000, at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), at.Nanosecond(), time.UTC)
}

// hasClock says whether the start of a line has a clock's time. It is a cheap test
// for each line.
func hasClock(line string) bool {
	line = line[:min(len(line), momentMost)]
	for i := range len(line) {
		if isDigit(line[i]) && isClock(line[i:]) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// failureOf describes a line that looks like an error. A line without a time has
// that of the last line with one.
func failureOf(log, shown, line, timed string, e journalEntry) *Failure {
	f := &Failure{Unit: log, Line: shown, at: e.at}
	for _, text := range []string{line, timed} {
		if f.at.IsZero() {
			f.at = moment(text)
		}
	}
	head := line[:min(len(line), longest)]
	if m := program().FindStringSubmatch(head); m != nil {
		f.Unit = m[1] + m[2]
		if unit := unitIn().FindString(head); unit != "" && f.Unit == "systemd" {
			f.Unit = unit
		}
	}
	if e.unit != "" {
		f.Unit = e.unit
	}
	return f
}
