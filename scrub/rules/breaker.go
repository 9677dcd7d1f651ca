package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// breaker is a row: a rule about one setting.
type breaker struct {
	id, cause               string
	reads                   reader
	program, shows          string
	since                   string // empty for every version
	fix, source, benchmarks string
	// exempts are the rules of the SCAP Security Guide that make the setting.
	exempts string
	note    bool
}

// reader finds a setting on a machine. It changes nothing and runs nothing, so
// it works on a running machine, an image root and a mounted disk.
type reader struct {
	paths []string
	find  func(*rule.Draft)
}

// breakerRules are the rows as rules of the audit.
func breakerRules(rows ...[]breaker) []rule.Rule {
	var rules []rule.Rule
	for _, b := range slices.Concat(rows...) {
		r := rule.Rule{
			ID: b.id, Phase: rule.Inspect, Groups: []string{rule.BreakersGroup, "assets"}, Verb: rule.Report, OfNodes: true,
			Paths: b.reads.paths,
			Owner: "hardened base images, administrators", Why: b.shows, Regenerated: "nothing", Source: b.source,
			Breaks: &rule.Breaker{
				Cause: b.cause, Program: b.program, Shows: b.shows, Fix: b.fix, Since: cmp.Or(b.since, "every version"),
				Benchmarks: b.benchmarks, Note: b.note, Exempts: strings.Fields(b.exempts),
			},
			Look: b.look,
		}
		if b.cause != b.id {
			r.Groups = append(r.Groups, b.cause)
		}
		rules = append(rules, r)
	}
	return rules
}

func anyOf(readers ...reader) reader {
	var all reader
	for _, r := range readers {
		all.paths = append(all.paths, r.paths...)
	}
	all.find = func(d *rule.Draft) {
		for _, r := range readers {
			r.find(d)
		}
	}
	return all
}

// unless has the reader's findings on machines on which the other finds nothing.
func (r reader) unless(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(d *rule.Draft) {
		if found := r.findings(d); len(found) > 0 && len(other.findings(d)) == 0 {
			d.Found(found...)
		}
	}}
}

// where has the reader's findings on machines on which the other finds something.
func (r reader) where(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(d *rule.Draft) {
		if len(other.findings(d)) > 0 {
			r.find(d)
		}
	}}
}

// lines finds the lines of files that match pattern. In pattern, the case does
// not matter. Comments do not count.
func lines(pattern string, files ...string) reader {
	wanted := rule.Expression(`(?i)` + pattern)
	return reader{files, func(d *rule.Draft) {
		d.EachLine(d.Files(files...), func(name string, number int, line string) {
			if m := wanted().FindString(line); m != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
				d.Find(name, fmt.Sprintf("line %d has %q", number, strings.TrimSpace(m)))
			}
		})
	}}
}

// enabled finds units that are enabled and not masked.
func enabled(units ...string) reader {
	return reader{show.Each(units, func(unit string) string { return starts + unit }), func(d *rule.Draft) {
		for _, unit := range units {
			if links := d.Known(starts + unit); len(links) > 0 && !isMasked(d, unit) {
				d.Find(links[0], unit+" starts at boot")
			}
		}
	}}
}

// masked finds units that are links to /dev/null.
func masked(units ...string) reader {
	const folder = "/etc/systemd/system/"
	return reader{show.Each(units, func(unit string) string { return folder + unit }), func(d *rule.Draft) {
		for _, unit := range units {
			if isMasked(d, unit) {
				d.Find(folder+unit, unit+" is masked")
			}
		}
	}}
}

func isMasked(d *rule.Draft, unit string) bool {
	target, err := d.Host.Files.ReadlinkIfPossible("/etc/systemd/system/" + unit)
	return err == nil && target == "/dev/null"
}

func (b breaker) look(d *rule.Draft) {
	found := b.reads.findings(d)
	for i := range found {
		found[i].Reason += ": " + b.shows + ". " + b.fix
		if b.benchmarks != "" {
			found[i].Reason += " (" + b.benchmarks + ")"
		}
	}
	d.Found(found...)
}

func (r reader) findings(d *rule.Draft) []plan.Finding {
	own := &rule.Draft{Ctx: d.Ctx, Host: d.Host, Err: d.Err}
	r.find(own)
	d.Failed(own.Err)
	return own.Answer.Findings
}
