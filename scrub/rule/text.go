package rule

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

// Setting is the last line that gives a name its value.
type Setting struct {
	File  string
	Line  int
	Value string
}

// EachLine calls do with each line of text files, without the space around it, and its
// number.
func (d *Draft) EachLine(names []string, do func(name string, number int, line string)) {
	for _, name := range names {
		number := 0
		for line := range strings.Lines(string(d.Content(name))) {
			number++
			do(name, number, strings.TrimSpace(line))
		}
	}
}

// LastSettings returns the last "name = value" of each name in files, which are in the
// order in which a program reads them. named gives a name its usual form.
func (d *Draft) LastSettings(files []string, named func(string) string) map[string]Setting {
	last := map[string]Setting{}
	d.EachLine(files, func(file string, number int, line string) {
		if key, value, set := strings.Cut(line, "="); set && !strings.HasPrefix(line, "#") &&
			!strings.HasPrefix(line, ";") {
			last[named(strings.TrimSpace(key))] = Setting{file, number, strings.TrimSpace(value)}
		}
	})
	return last
}

// Files lists the regular files, or links to them, that match patterns.
func (d *Draft) Files(patterns ...string) []string {
	return slices.DeleteFunc(d.Glob(patterns...), func(name string) bool {
		st := d.Stat(name)
		return st == nil || !st.Mode().IsRegular()
	})
}

// ConfFiles lists the files that a program reads from a folder and from the
// distribution's folders of the same purpose, in order. A file hides files of the
// same name in later folders, as sysctl.d(5) and modprobe.d(5) say.
func (d *Draft) ConfFiles(folders ...string) []string {
	files := map[string]string{}
	for _, dir := range folders {
		entries, err := afero.ReadDir(d.Host.Files, dir)
		if LeadsNowhere(err) || d.Failed(err) {
			continue
		}
		for _, e := range entries {
			if _, hidden := files[e.Name()]; !hidden && !e.IsDir() && path.Ext(e.Name()) == ".conf" {
				files[e.Name()] = path.Join(dir, e.Name())
			}
		}
	}
	return show.Each(slices.Sorted(maps.Keys(files)), func(name string) string { return files[name] })
}

// idMost is how many bytes a file with an ID may have.
const idMost = 64 << 10

// Small reads a file with an ID, or nothing if a folder, a device or a large file is in
// its place, or a mount that is not of the machine. The rule of that file handles it.
func (d *Draft) Small(name string) []byte {
	if m, err := d.Host.Files.Foreign(name, "", true); d.Failed(err) || m != nil {
		return nil
	}
	if st := d.Stat(name); st == nil || !st.Mode().IsRegular() || st.Size() > idMost {
		return nil
	}
	return d.Content(name)
}

// RemoveWhere plans the removal of the files whose content matches.
func (d *Draft) RemoveWhere(why string, so func([]byte) bool, names ...string) {
	for _, name := range names {
		if so(d.Content(name)) {
			d.Plan(plan.Remove, name, why)
		}
	}
}

// WithoutLines returns a text without the lines that drop names.
func WithoutLines(text string, drop func(line string) bool) string {
	var left strings.Builder
	for line := range strings.Lines(text) {
		if !drop(line) {
			left.WriteString(line)
		}
	}
	return left.String()
}

// Accounts are the machine's.
func (d *Draft) Accounts() []Account {
	lines, err := accountLines(d.Host)
	d.Failed(err)
	return parseAccounts(lines)
}

// Says describes the line for a finding.
func (s Setting) Says(name string) string {
	return fmt.Sprintf("line %d sets %s = %.40q, and no later file changes it", s.Line, name, s.Value)
}
