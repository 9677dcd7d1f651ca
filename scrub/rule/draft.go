package rule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Draft is the answer of a rule while the rule looks at a machine. It keeps the first error:
// from then on, every method finds and plans nothing, so a rule asks for the error once.
type Draft struct {
	Ctx  context.Context
	Host *host.Host
	// Paths are those of the rule's row.
	Paths []string
	Run
	Answer plan.Answer
	Err    error
}

// Run is what the rules of a run share.
type Run struct {
	Taken     Taken
	Owners    *Owners
	Originals *Originals
	// IDs are the MachineIDs from before a scrub.
	IDs []string
}

// Failed keeps an error, and reports whether there is one.
func (d *Draft) Failed(err error) bool {
	if d.Err == nil {
		d.Err = err
	}
	return d.Err != nil
}

// Act plans an action.
func (d *Draft) Act(a plan.Action) {
	if d.Err == nil {
		d.Answer.Act(a)
	}
}

// Find adds a finding.
func (d *Draft) Find(target, reason string) { d.Found(plan.Finding{Target: target, Reason: reason}) }

// Found adds findings.
func (d *Draft) Found(findings ...plan.Finding) {
	if d.Err == nil {
		d.Answer.Findings = append(d.Answer.Findings, findings...)
	}
}

// Add adds an answer, unless it failed.
func (d *Draft) Add(a plan.Answer, err error) {
	if !d.Failed(err) {
		d.Answer.Add(a)
	}
}

// Remove plans the removal of a path that exists.
func (d *Draft) Remove(name, why string) { d.Act(removeAction(d.Host, name, why)) }

// Plan plans a path, if it exists and has something to remove.
func (d *Draft) Plan(verb plan.Verb, name, why string) { d.Add(PlanPath(d.Host, verb, name, why)) }

// Write plans another content of a file, which keeps its mode and owner.
func (d *Draft) Write(verb plan.Verb, name string, text []byte, why string) {
	attr, err := d.Host.Files.Attributes(name)
	if !d.Failed(err) {
		d.Act(WriteAction(d.Host, verb, name, text, attr, why))
	}
}

// WriteAction writes a file.
func WriteAction(h *host.Host, verb plan.Verb, name string, text []byte, attr host.Attributes, why string) plan.Action {
	return plan.Action{Verb: verb, Target: name, Reason: why,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, text, attr) }}
}

// found is what a look at the machine found, and nothing after an error.
func found[T any](d *Draft, v T, err error) (none T) {
	if d.Failed(err) {
		return none
	}
	return v
}

// Content is that of a regular file; nil if there is none.
func (d *Draft) Content(name string) []byte {
	text, err := d.Host.Content(name)
	return found(d, text, err)
}

// Texts calls do with the content of each file. It leaves out folders, and links that lead
// nowhere.
func (d *Draft) Texts(names []string, do func(name string, text []byte)) {
	for _, name := range names {
		if st := d.Stat(name); st != nil && !st.IsDir() {
			if text := d.Content(name); d.Err == nil {
				do(name, text)
			}
		}
	}
}

// OwnTexts is texts without links and special files.
func (d *Draft) OwnTexts(names []string, do func(name string, text []byte)) {
	d.Texts(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !d.IsFile(name) }), do)
}

// Stat is what a path leads to; nil if it leads nowhere.
func (d *Draft) Stat(name string) fs.FileInfo {
	st, err := d.Host.Files.Stat(name)
	if LeadsNowhere(err) {
		return nil
	}
	return found(d, st, err)
}

// Lstat is an entry itself; nil if there is none.
func (d *Draft) Lstat(name string) fs.FileInfo {
	st, err := d.Host.Files.Lstat(name)
	if IsMissing(err) {
		return nil
	}
	return found(d, st, err)
}

// IsFile reports whether a path is a regular file, and no link to one.
func (d *Draft) IsFile(name string) bool {
	st := d.Lstat(name)
	return st != nil && st.Mode().IsRegular()
}

// Exists reports whether a path leads to something.
func (d *Draft) Exists(name string) bool {
	there, err := d.Host.Exists(name)
	return found(d, there, err)
}

// HasUnit reports whether the machine has a unit that is not masked.
func (d *Draft) HasUnit(name string) bool {
	there, err := d.Host.HasUnit(name)
	return found(d, there, err)
}

// Tops are the folders before "/**" in the row's paths, with every home for "~".
func (d *Draft) Tops() (tops []string) {
	for _, p := range d.Paths {
		switch top, _, deep := strings.Cut(p, "/**"); {
		case deep && top == "~":
			homes, _, err := Homes(d.Host)
			d.Failed(err)
			tops = append(tops, homes...)
		case deep:
			tops = append(tops, cmp.Or(top, "/"))
		}
	}
	return tops
}

// Walk calls do for everything below the row's Tops, without following links. It goes on
// after an entry that cannot be read, and returns the foreign mounts, which it does not enter.
func (d *Draft) Walk(do func(e host.Entry) error) (foreign []*host.ForeignMount) {
	var errs []error
	for _, top := range d.Tops() {
		mounts, err := d.Host.Files.Walk(d.Ctx, top, top, func(e host.Entry, err error) error {
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			return do(e)
		})
		foreign, errs = append(foreign, mounts...), append(errs, err)
	}
	d.Failed(errors.Join(errs...))
	return foreign
}

// Glob lists what matches patterns. A foreign mount on the way is an error.
func (d *Draft) Glob(patterns ...string) []string {
	names, foreign, err := matching(d.Host, patterns)
	for _, f := range ForeignFindings(d.Host, foreign) {
		err = fmt.Errorf("looking for %s: %w", strings.Join(patterns, ", "), &host.MountedError{Path: f.Target})
	}
	return found(d, names, err)
}

// Matching lists what matches patterns, each path once. A foreign mount on the way is a
// finding.
func (d *Draft) Matching(patterns ...string) []string {
	names, foreign, err := matching(d.Host, patterns)
	d.Found(ForeignFindings(d.Host, foreign)...)
	return found(d, names, err)
}

// Known is matching without findings: another rule has them.
func (d *Draft) Known(patterns ...string) []string {
	names, _, err := matching(d.Host, patterns)
	return found(d, names, err)
}
