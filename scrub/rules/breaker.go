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

// reader finds a setting on a machine. It changes nothing and runs nothing, so
// it works on a running machine, an image root and a mounted disk.
type reader struct {
	paths []string
	find  func(*rule.Draft)
}

// breaker makes a row a rule of the audit that reports what the reader finds. It sets what all
// these rules have in common.
func (r reader) breaker(k *rule.Rule) {
	k.Phase, k.Groups, k.Verb, k.OfNodes = rule.Inspect, []string{rule.BreakersGroup, "assets"}, rule.Report, true
	if k.Breaks.Cause != k.ID {
		k.Groups = append(k.Groups, k.Breaks.Cause)
	}
	k.Paths, k.Owner, k.Why, k.Regenerated = r.paths, "hardened base images, administrators", k.Breaks.Shows, "nothing"
	b := *k.Breaks
	b.Since = cmp.Or(b.Since, "every version")
	k.Breaks = &b
	k.Look = func(d *rule.Draft) {
		found := r.findings(d)
		for i := range found {
			found[i].Reason += ": " + b.Shows + ". " + b.Fix
			if b.Benchmarks != "" {
				found[i].Reason += " (" + b.Benchmarks + ")"
			}
		}
		d.Found(found...)
	}
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
			if m := wanted().FindString(line); m != "" && !strings.HasPrefix(line, "#") &&
				!strings.HasPrefix(line, ";") {
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

func (r reader) findings(d *rule.Draft) []plan.Finding {
	own := &rule.Draft{Ctx: d.Ctx, Host: d.Host, Err: d.Err}
	r.find(own)
	d.Failed(own.Err)
	return own.Answer.Findings
}
