package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// File is the wanted state of a file, which root owns.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
	// Why says what the file is for.
	Why string
	// Transient says that every boot writes the file again, so that writing does not
	// wait for the disk.
	Transient bool
}

// Files plans to write the files that are missing or differ in content, mode or
// owner, and to remove the temporary files of an interrupted write. A file that is
// right keeps its times.
func Files(h *host.Host, files []File) ([]Action, error) {
	var actions []Action
	for _, f := range files {
		left, err := Leftovers(h, f.Path)
		if err != nil {
			return nil, err
		}
		actions = append(actions, left...)
		same, err := f.IsThere(h)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", f.Path, err)
		}
		if !same {
			actions = append(actions, Action{Verb: Write, Target: f.Path, Reason: f.Why,
				Do: func(context.Context, Progress) error { return f.write(h) }})
		}
	}
	return actions, nil
}

func (f File) attributes() host.Attributes { return host.Attributes{Mode: f.Mode} }

// IsThere reports whether the file is in the wanted state. It does not follow a link
// in the file's place: writing replaces the link.
func (f File) IsThere(h *host.Host) (bool, error) {
	st, err := h.Files.Lstat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !st.Mode().IsRegular() {
		return false, err
	}
	content, err := h.Content(f.Path)
	if err != nil || !bytes.Equal(content, f.Content) {
		return false, err
	}
	attr, err := h.Files.Attributes(f.Path)
	return attr == f.attributes(), err
}

func (f File) write(h *host.Host) error {
	if target, err := h.Files.ReadlinkIfPossible(f.Path); err == nil {
		if err := h.Files.Remove(f.Path); err != nil {
			return fmt.Errorf("replacing the link to %s: %w", target, err)
		}
	}
	if f.Transient {
		return h.Files.WriteTransient(f.Path, f.Content, f.attributes())
	}
	return h.Files.WriteFile(f.Path, f.Content, f.attributes())
}

// Interrupted is the reason for which leftovers go.
const Interrupted = "an interrupted run left it"

// Leftovers plans the removal of the temporary files that a killed write of name
// left beside it.
func Leftovers(h *host.Host, name string) ([]Action, error) {
	names, err := h.Leftovers(name)
	if err != nil {
		return nil, err
	}
	return Absent(h, Interrupted, names...)
}

// IsThere reports whether anything has that name, also a dangling link.
func IsThere(h *host.Host, name string) (bool, error) {
	_, err := h.Files.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return true, nil
}

// Absent plans the removal of files and folders that are there.
func Absent(h *host.Host, why string, names ...string) ([]Action, error) {
	var actions []Action
	for _, name := range names {
		there, err := IsThere(h, name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		actions = append(actions, Action{Verb: Remove, Target: name, Reason: why,
			Do: func(context.Context, Progress) error {
				_, err := h.Files.RemoveTree(name)
				return err
			}})
	}
	return actions, nil
}

// Command plans to run a command.
func Command(h *host.Host, why string, argv ...string) Action {
	c := host.Command{Argv: argv}
	return Action{Verb: Run, Target: c.String(), Reason: why, Do: func(ctx context.Context, _ Progress) error {
		_, err := h.Run(ctx, c)
		return err
	}}
}

// Edit changes the text of a file that other programs write too. The file keeps its
// attributes. A missing file has an empty text.
type Edit struct {
	Path, Target, Why string
	Change            func(text string) string
}

// Edits plans the edits that change something.
func Edits(h *host.Host, edits ...Edit) ([]Action, error) {
	var actions []Action
	for _, e := range edits {
		text, err := h.Content(e.Path)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.Path, err)
		}
		if e.Change(string(text)) != string(text) {
			actions = append(actions, e.Action(h))
		}
	}
	return actions, nil
}

// Action writes the changed text, whether or not the text is another one.
func (e Edit) Action(h *host.Host) Action {
	return Action{Verb: Write, Target: e.Target, Reason: e.Why,
		Do: func(context.Context, Progress) error { return e.Write(h) }}
}

// Write writes the changed text.
func (e Edit) Write(h *host.Host) error {
	text, err := h.Content(e.Path)
	attr := host.Attributes{Mode: 0o644}
	if err == nil && text != nil {
		attr, err = h.Files.Attributes(e.Path)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", e.Path, err)
	}
	return h.Files.WriteFile(e.Path, []byte(e.Change(string(text))), attr)
}

// SymbolicLink is the wanted state of a symbolic link.
type SymbolicLink struct{ Path, To, Why string }

// Links plans the links that are missing. A link replaces a file or another link in
// its place.
func Links(h *host.Host, links []SymbolicLink) ([]Action, error) {
	var actions []Action
	for _, l := range links {
		st, err := h.Files.Lstat(l.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("linking %s: %w", l.Path, err)
		case st.Mode().Type() != fs.ModeSymlink && !st.Mode().IsRegular():
			return nil, fmt.Errorf("linking %s: something else is there; remove it", l.Path)
		default:
			if to, err := h.Files.ReadlinkIfPossible(l.Path); err == nil && to == l.To {
				continue
			}
		}
		actions = append(actions, Action{Verb: Link, Target: l.Path + " to " + l.To, Reason: l.Why,
			Do: func(context.Context, Progress) error { return l.write(h) }})
	}
	return actions, nil
}

func (l SymbolicLink) write(h *host.Host) error {
	if err := h.Files.MkdirAll(path.Dir(l.Path), 0o755); err != nil {
		return err
	}
	if err := h.Files.Remove(l.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.Files.SymlinkIfPossible(l.To, l.Path)
}

// textMost is how many bytes an error or a reason may have in a bounded report.
const textMost = 64 << 10

// Bounded returns the report with lists of at most that many entries and with short
// errors; Omitted counts the entries that are missing.
func (r Report) Bounded(most int) Report {
	omitted := r.Omitted
	bound(reflect.ValueOf(&r).Elem(), "", most, &omitted)
	r.Omitted = omitted
	return r
}

// Bounded returns the outcome with lists of at most that many entries.
func (o Outcome) Bounded(most int) Outcome {
	bound(reflect.ValueOf(&o).Elem(), "", most, new(int))
	return o
}

// bound shortens the lists and texts in the field of a name. What it changes, it copies.
func bound(v reflect.Value, field string, most int, omitted *int) {
	switch v.Kind() {
	case reflect.Struct:
		for f, inner := range v.Fields() {
			if f.IsExported() {
				bound(inner, f.Name, most, omitted)
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			inner := reflect.New(v.Type().Elem())
			inner.Elem().Set(v.Elem())
			bound(inner.Elem(), field, most, omitted)
			v.Set(inner)
		}
	case reflect.Slice:
		kept := min(v.Len(), most)
		*omitted += v.Len() - kept
		v.Set(reflect.AppendSlice(reflect.Zero(v.Type()), v.Slice(0, kept)))
		for i := range kept {
			bound(v.Index(i), field, most, omitted)
		}
	case reflect.String:
		if (field == "Error" || field == "Reason") && v.Len() > textMost {
			v.SetString(v.String()[:textMost] + " …")
		}
	}
}
