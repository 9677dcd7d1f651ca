package scrub

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
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
}

// breaker is a row: a rule about one setting.
type breaker struct {
	id, cause               string
	reads                   reader
	program, shows, since   string
	fix, source, benchmarks string
	note                    bool
}

// reader finds a setting on a machine. It changes nothing and runs nothing, so
// it works on a running machine, an image root and a mounted disk.
type reader struct {
	paths []string
	find  func(*host.Host) ([]plan.Finding, error)
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
				Note: b.note,
			},
			Find: b.plan,
		}
		if b.cause != b.id {
			r.Groups = append(r.Groups, b.cause)
		}
		rules = append(rules, r)
	}
	return rules
}

func (b breaker) plan(_ context.Context, h *host.Host) (plan.Answer, error) {
	found, err := b.reads.find(h)
	if err != nil {
		return plan.Answer{}, err
	}
	for i := range found {
		found[i].Reason += ": " + b.shows + ". " + b.fix
		if b.benchmarks != "" {
			found[i].Reason += " (" + b.benchmarks + ")"
		}
	}
	if b.note {
		return plan.Answer{Notes: found}, nil
	}
	return plan.Answer{Findings: found}, nil
}

// anyOf has the findings of all readers.
func anyOf(readers ...reader) reader {
	var all reader
	for _, r := range readers {
		all.paths = append(all.paths, r.paths...)
	}
	all.find = func(h *host.Host) (found []plan.Finding, err error) {
		for _, r := range readers {
			more, err := r.find(h)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
		}
		return found, nil
	}
	return all
}

// unless has the reader's findings on machines on which the other finds nothing.
func (r reader) unless(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(h *host.Host) ([]plan.Finding, error) {
		found, err := r.find(h)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		if saves, err := other.find(h); err != nil || len(saves) > 0 {
			return nil, err
		}
		return found, nil
	}}
}

// where has the reader's findings on machines on which the other finds something.
func (r reader) where(other reader) reader {
	return reader{append(slices.Clone(r.paths), other.paths...), func(h *host.Host) ([]plan.Finding, error) {
		if needed, err := other.find(h); err != nil || len(needed) == 0 {
			return nil, err
		}
		return r.find(h)
	}}
}

// lines finds the lines of files that match pattern. In pattern, the case does
// not matter. Comments do not count.
func lines(pattern string, files ...string) reader {
	wanted := expression(`(?i)` + pattern)
	return reader{files, func(h *host.Host) (found []plan.Finding, err error) {
		names, err := globs(h, files)
		if err != nil {
			return nil, err
		}
		err = eachLine(h, names, func(name string, number int, line string) {
			if m := wanted().FindString(line); m != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
				found = append(found, plan.Finding{Target: name, Reason: fmt.Sprintf("line %d has %q", number,
					strings.TrimSpace(m))})
			}
		})
		return found, err
	}}
}

// eachLine calls do with each line of text files, without the space around it, and its
// number.
func eachLine(h *host.Host, names []string, do func(name string, number int, line string)) error {
	for _, name := range names {
		text, err := h.Content(name)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			do(name, number, strings.TrimSpace(line))
		}
	}
	return nil
}

// setting is the last line that gives a name its value.
type setting struct {
	file  string
	line  int
	value string
}

// lastSettings returns the last "name = value" of each name in files, which are in the
// order in which a program reads them. named gives a name its usual form.
func lastSettings(h *host.Host, files []string, named func(string) string) (map[string]setting, error) {
	last := map[string]setting{}
	return last, eachLine(h, files, func(file string, number int, line string) {
		if key, value, set := strings.Cut(line, "="); set && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, ";") {
			last[named(strings.TrimSpace(key))] = setting{file, number, strings.TrimSpace(value)}
		}
	})
}

// globs lists the regular files, or links to them, that match patterns. A
// folder that does not exist has none.
func globs(h *host.Host, patterns []string) ([]string, error) {
	var all []string
	for _, pattern := range patterns {
		names, err := glob(h, pattern)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			st, err := h.Files.Stat(name)
			if err == nil && st.Mode().IsRegular() {
				all = append(all, name)
			} else if err != nil && !leadsNowhere(err) {
				return nil, err
			}
		}
	}
	return all, nil
}

// enabled finds units that are enabled and not masked.
func enabled(units ...string) reader {
	var paths []string
	for _, unit := range units {
		paths = append(paths, "/etc/systemd/system/*.wants/"+unit)
	}
	return reader{paths, func(h *host.Host) (found []plan.Finding, err error) {
		for _, unit := range units {
			links, err := h.Enablements(unit)
			if err != nil {
				return nil, err
			}
			if len(links) > 0 && !isMasked(h, unit) {
				found = append(found, plan.Finding{Target: links[0], Reason: unit + " starts at boot"})
			}
		}
		return found, nil
	}}
}

// masked finds units that are links to /dev/null.
func masked(units ...string) reader {
	var paths []string
	for _, unit := range units {
		paths = append(paths, "/etc/systemd/system/"+unit)
	}
	return reader{paths, func(h *host.Host) (found []plan.Finding, err error) {
		for i, unit := range units {
			if isMasked(h, unit) {
				found = append(found, plan.Finding{Target: paths[i], Reason: unit + " is masked"})
			}
		}
		return found, nil
	}}
}

func isMasked(h *host.Host, unit string) bool {
	target, err := h.Files.ReadlinkIfPossible("/etc/systemd/system/" + unit)
	return err == nil && target == "/dev/null"
}

// confFiles lists the files that a program reads from a folder and from the
// distribution's folders of the same purpose, in order. A file hides files of the
// same name in later folders, as sysctl.d(5) and modprobe.d(5) say.
func confFiles(h *host.Host, folders ...string) ([]string, error) {
	files := map[string]string{}
	for _, dir := range folders {
		entries, err := afero.ReadDir(h.Files, dir)
		if leadsNowhere(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if _, hidden := files[e.Name()]; !hidden && path.Ext(e.Name()) == ".conf" {
				files[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, files[name])
	}
	return list, nil
}
