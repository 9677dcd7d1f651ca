package scrub

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// BreakersGroup selects all rules about settings that break nodes.
const BreakersGroup = "join-breakers"

// Breaker is a setting that keeps a program of a node from working. Hardening
// sets most of them.
type Breaker struct {
	// Cause is the ID by which `eksnode diagnose` names the failure.
	Cause string
	// Program is what fails, Shows how, and Fix the smallest exception.
	Program, Shows, Fix string
	// Since is the first version that fails.
	Since string
	// Benchmarks are the benchmarks' rules that demand the setting, such as
	// "CIS 3.3.1" or "V-257970"; empty if none does. The numbers are those for
	// Debian 12, Ubuntu 24.04 and RHEL 9 unless another system is named.
	Benchmarks string
	// Note says that few nodes need what the setting takes away: the audit
	// reports a note, which changes no result.
	Note bool
	// Exempts are the rules of the SCAP Security Guide that demand the setting. Hardening
	// leaves them out.
	Exempts []string
}

// breaker is a row: a rule about one setting.
type breaker struct {
	id, cause               string
	reads                   reader
	program, shows, since   string
	fix, source, benchmarks string
	// exempts are the rules of the SCAP Security Guide that make the setting.
	exempts string
	note    bool
}

// reader finds a setting on a machine. It changes nothing and runs nothing, so
// it works on a running machine, an image root and a mounted disk.
type reader struct {
	paths []string
	find  func(*draft)
}

// breakerRules are the rows as rules of the audit.
func breakerRules(rows ...[]breaker) []Rule {
	var rules []Rule
	for _, b := range slices.Concat(rows...) {
		r := Rule{
			ID: b.id, Phase: Inspect, Groups: []string{BreakersGroup, "assets"}, Verb: Report, ofNodes: true,
			Paths: b.reads.paths,
			Owner: "hardened base images, administrators", Why: b.shows, Regenerated: "nothing", Source: b.source,
			Breaks: &Breaker{
				Cause: b.cause, Program: b.program, Shows: b.shows, Fix: b.fix, Since: b.since, Benchmarks: b.benchmarks,
				Note: b.note, Exempts: strings.Fields(b.exempts),
			},
			look: b.look,
		}
		if b.cause != b.id {
			r.Groups = append(r.Groups, b.cause)
		}
		rules = append(rules, r)
	}
	return rules
}

// anyOf has the findings of all readers.
func anyOf(readers ...reader) reader {
	var all reader
	for _, r := range readers {
		all.paths = append(all.paths, r.paths...)
	}
	all.find = func(d *draft) {
		for _, r := range readers {
			r.find(d)
		}
	}
	return all
}

// unless has the reader's findings on machines on which the other finds nothing.
func (r reader) unless(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(d *draft) {
		if found := d.findings(r); len(found) > 0 && len(d.findings(other)) == 0 {
			d.found(found...)
		}
	}}
}

// where has the reader's findings on machines on which the other finds something.
func (r reader) where(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(d *draft) {
		if len(d.findings(other)) > 0 {
			r.find(d)
		}
	}}
}

// lines finds the lines of files that match pattern. In pattern, the case does
// not matter. Comments do not count.
func lines(pattern string, files ...string) reader {
	wanted := expression(`(?i)` + pattern)
	return reader{files, func(d *draft) {
		d.eachLine(d.files(files...), func(name string, number int, line string) {
			if m := wanted().FindString(line); m != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
				d.find(name, fmt.Sprintf("line %d has %q", number, strings.TrimSpace(m)))
			}
		})
	}}
}

// setting is the last line that gives a name its value.
type setting struct {
	file  string
	line  int
	value string
}

// enabled finds units that are enabled and not masked.
func enabled(units ...string) reader {
	var paths []string
	for _, unit := range units {
		paths = append(paths, "/etc/systemd/system/*.wants/"+unit)
	}
	return reader{paths, func(d *draft) {
		for _, unit := range units {
			if links := d.enablements(unit); len(links) > 0 && !isMasked(d, unit) {
				d.find(links[0], unit+" starts at boot")
			}
		}
	}}
}

// masked finds units that are links to /dev/null.
func masked(units ...string) reader {
	var paths []string
	for _, unit := range units {
		paths = append(paths, "/etc/systemd/system/"+unit)
	}
	return reader{paths, func(d *draft) {
		for i, unit := range units {
			if isMasked(d, unit) {
				d.find(paths[i], unit+" is masked")
			}
		}
	}}
}

func isMasked(d *draft, unit string) bool {
	target, err := d.h.Files.ReadlinkIfPossible("/etc/systemd/system/" + unit)
	return err == nil && target == "/dev/null"
}

func (b breaker) look(d *draft) {
	found := d.findings(b.reads)
	for i := range found {
		found[i].Reason += ": " + b.shows + ". " + b.fix
		if b.benchmarks != "" {
			found[i].Reason += " (" + b.benchmarks + ")"
		}
	}
	d.found(found...)
}

// findings are those of a reader.
func (d *draft) findings(r reader) []plan.Finding {
	own := &draft{ctx: d.ctx, h: d.h, err: d.err}
	r.find(own)
	d.failed(own.err)
	return own.answer.Findings
}

// eachLine calls do with each line of text files, without the space around it, and its
// number.
func (d *draft) eachLine(names []string, do func(name string, number int, line string)) {
	for _, name := range names {
		number := 0
		for line := range strings.Lines(string(d.content(name))) {
			number++
			do(name, number, strings.TrimSpace(line))
		}
	}
}

// lastSettings returns the last "name = value" of each name in files, which are in the
// order in which a program reads them. named gives a name its usual form.
func (d *draft) lastSettings(files []string, named func(string) string) map[string]setting {
	last := map[string]setting{}
	d.eachLine(files, func(file string, number int, line string) {
		if key, value, set := strings.Cut(line, "="); set && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			last[named(strings.TrimSpace(key))] = setting{file, number, strings.TrimSpace(value)}
		}
	})
	return last
}

// files lists the regular files, or links to them, that match patterns.
func (d *draft) files(patterns ...string) []string {
	return slices.DeleteFunc(d.glob(patterns...), func(name string) bool {
		st := d.stat(name)
		return st == nil || !st.Mode().IsRegular()
	})
}

// confFiles lists the files that a program reads from a folder and from the
// distribution's folders of the same purpose, in order. A file hides files of the
// same name in later folders, as sysctl.d(5) and modprobe.d(5) say.
func (d *draft) confFiles(folders ...string) []string {
	files := map[string]string{}
	for _, dir := range folders {
		entries, err := afero.ReadDir(d.h.Files, dir)
		if leadsNowhere(err) || d.failed(err) {
			continue
		}
		for _, e := range entries {
			if _, hidden := files[e.Name()]; !hidden && path.Ext(e.Name()) == ".conf" {
				files[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	return show.Each(slices.Sorted(maps.Keys(files)), func(name string) string { return files[name] })
}
