package scrub

import (
	"context"
	"io/fs"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// draft is the answer of a rule while the rule looks at a machine. It keeps the first error:
// from then on, every method finds and plans nothing, so a rule asks for the error once.
type draft struct {
	ctx context.Context
	h   *host.Host
	// paths are those of the rule's row.
	paths []string
	run
	answer plan.Answer
	err    error
}

// run is what the rules of a run share.
type run struct {
	taken     taken
	owners    *owners
	originals *originals
	// ids are the MachineIDs from before a scrub.
	ids []string
}

// failed keeps an error, and reports whether there is one.
func (d *draft) failed(err error) bool {
	if d.err == nil {
		d.err = err
	}
	return d.err != nil
}

func (d *draft) act(a plan.Action) {
	if d.err == nil {
		d.answer.Act(a)
	}
}

func (d *draft) find(target, reason string) { d.found(plan.Finding{Target: target, Reason: reason}) }

func (d *draft) found(findings ...plan.Finding) {
	if d.err == nil {
		d.answer.Findings = append(d.answer.Findings, findings...)
	}
}

func (d *draft) add(a plan.Answer, err error) {
	if !d.failed(err) {
		d.answer.Add(a)
	}
}

// remove plans the removal of a path that exists.
func (d *draft) remove(name, why string) { d.act(removeAction(d.h, name, why)) }

// plan plans a path, if it exists and has something to remove.
func (d *draft) plan(verb plan.Verb, name, why string) { d.add(planPath(d.h, verb, name, why)) }

// write plans another content of a file, which keeps its mode and owner.
func (d *draft) write(verb plan.Verb, name string, text []byte, why string) {
	attr, err := d.h.Files.Attributes(name)
	if !d.failed(err) {
		d.act(writeAction(d.h, verb, name, text, attr, why))
	}
}

func writeAction(h *host.Host, verb plan.Verb, name string, text []byte, attr host.Attributes, why string) plan.Action {
	return plan.Action{Verb: verb, Target: name, Reason: why,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, text, attr) }}
}

// content is that of a regular file; nil if there is none.
func (d *draft) content(name string) []byte {
	if d.err != nil {
		return nil
	}
	text, err := d.h.Content(name)
	d.failed(err)
	return text
}

// texts calls do with the content of each file. It leaves out folders, and links that lead
// nowhere.
func (d *draft) texts(names []string, do func(name string, text []byte)) {
	for _, name := range names {
		if st := d.stat(name); st != nil && !st.IsDir() {
			if text := d.content(name); d.err == nil {
				do(name, text)
			}
		}
	}
}

// ownTexts is texts without links and special files.
func (d *draft) ownTexts(names []string, do func(name string, text []byte)) {
	for _, name := range names {
		if d.isFile(name) {
			if text := d.content(name); d.err == nil {
				do(name, text)
			}
		}
	}
}

// stat is what a path leads to; nil if it leads nowhere.
func (d *draft) stat(name string) fs.FileInfo {
	if d.err != nil {
		return nil
	}
	st, err := d.h.Files.Stat(name)
	if leadsNowhere(err) || d.failed(err) {
		return nil
	}
	return st
}

// lstat is an entry itself; nil if there is none.
func (d *draft) lstat(name string) fs.FileInfo {
	if d.err != nil {
		return nil
	}
	st, err := d.h.Files.Lstat(name)
	if d.failed(ignoreMissing(err)) || err != nil {
		return nil
	}
	return st
}

// isFile reports whether a path is a regular file, and no link to one.
func (d *draft) isFile(name string) bool {
	st := d.lstat(name)
	return st != nil && st.Mode().IsRegular()
}

func (d *draft) exists(name string) bool {
	if d.err != nil {
		return false
	}
	there, err := d.h.Exists(name)
	return !d.failed(err) && there
}

func (d *draft) hasUnit(name string) bool {
	there, err := d.h.HasUnit(name)
	return !d.failed(err) && there
}

// enablements are the links that start a unit at boot.
func (d *draft) enablements(unit string) []string {
	links, err := d.h.Enablements(unit)
	d.failed(err)
	return links
}

// glob lists what matches patterns. A foreign mount on the way is an error.
func (d *draft) glob(patterns ...string) []string {
	var all []string
	for _, pattern := range patterns {
		names, err := glob(d.h, pattern)
		if d.failed(err) {
			return nil
		}
		all = append(all, names...)
	}
	return all
}

// matching lists what matches patterns, each path once. A foreign mount on the way is a
// finding.
func (d *draft) matching(patterns ...string) []string {
	names, foreign, err := matching(d.h, patterns)
	if d.failed(err) {
		return nil
	}
	d.found(foreignFindings(d.h, foreign)...)
	return names
}

// known is matching without findings: another rule has them.
func (d *draft) known(patterns ...string) []string {
	names, _, err := matching(d.h, patterns)
	d.failed(err)
	return names
}

// manifest is the image's; nil if it has none.
func (d *draft) manifest() *manifest.Manifest {
	m, err := manifest.Load(d.h)
	d.failed(err)
	return m
}
