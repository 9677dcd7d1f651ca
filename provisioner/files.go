package provisioner

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/bootunits"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

//go:embed files.yaml
var filesFile []byte

// tableFile is a file in one of the tables. Everyone can read it, unless it has a mode.
type tableFile struct {
	Path, Content, Why string
	Mode               fs.FileMode
}

// file is the file with other words in the place of some, such as {commands}.
func (f tableFile) file(words *strings.Replacer) plan.File {
	return plan.File{
		Path: words.Replace(f.Path), Content: []byte(words.Replace(f.Content)), Mode: cmp.Or(f.Mode, 0o644), Why: f.Why,
	}
}

// nodeFiles are the folders and files of every node, with the step that makes each. Needs is the download
// without which a node does not have the file.
var nodeFiles = sync.OnceValue(func() (table []struct {
	Step, Needs string
	tableFile   `yaml:",inline"`
}) {
	strictjson.Ours("files.yaml", filesFile, &table)
	return table
})

// stepFiles are the folders or files that a step makes on every node.
func (n *node) stepFiles(step string) []plan.File {
	presets := ""
	if n.spec.joins() {
		presets = strings.Join(bootunits.Preset(), "\n") + "\n"
	}
	words := strings.NewReplacer("{commands}", n.distro.CommandFolder, "{units}", n.distro.UnitFolder,
		"{presets}\n", presets)
	var files []plan.File
	for _, f := range nodeFiles() {
		if f.Step == step && (f.Needs == "" || n.has(f.Needs)) {
			files = append(files, f.file(words))
		}
	}
	return files
}

// entries lists a folder, which may be missing.
func entries(h *host.Host, folder string) ([]fs.FileInfo, error) {
	list, err := afero.ReadDir(h.Files, folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// textFile is a file that everyone can read.
func textFile[T string | []byte](name string, content T, why string) plan.File {
	return plan.File{Path: name, Content: []byte(content), Mode: 0o644, Why: why}
}

// directories makes the folders. Existing folders keep their modes, which their
// package or owner decides.
func (n *node) directories(_ context.Context, h *host.Host) ([]plan.Action, error) {
	var g gathered
	for _, f := range n.stepFiles("directories") {
		g.add(planFolder(h, f.Path, f.Why))
	}
	return g.all()
}

func planFolder(h *host.Host, name, why string) ([]plan.Action, error) {
	st, err := h.Files.Stat(name)
	switch {
	case err == nil && st.IsDir():
		return nil, nil
	case err == nil:
		return nil, fmt.Errorf("%s must be a folder but is a file; remove the file", name)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	return []plan.Action{act(plan.Mkdir, name, why, func(context.Context) error {
		if err := h.Files.MkdirAll(name, 0o755); err != nil {
			return err
		}
		return h.Files.Chmod(name, 0o755)
	})}, nil
}

// lineInFile is one line of a file that belongs to another program.
type lineInFile struct {
	Path string
	// Key is a regular expression for the lines that the line replaces.
	Key, Text string
	// First puts a new line at the beginning of the file: before the first table of
	// a TOML file.
	First bool
	Why   string
}

// in is the text with the line, which replaces the first match of Key and no later
// one.
func (l lineInFile) in(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	matches := regexp.MustCompile(l.Key).MatchString
	at := slices.IndexFunc(lines, matches)
	if lines = slices.DeleteFunc(lines, matches); at < 0 {
		at = len(lines)
		if l.First {
			at = 0
		}
	}
	return strings.Join(slices.Insert(lines, at, l.Text), "\n") + "\n"
}

// planLines plans the missing lines. A missing file is created with them; its
// package keeps its own settings elsewhere.
func planLines(h *host.Host, lines []lineInFile) ([]plan.Action, error) {
	return plan.Edits(h, show.Each(lines, func(l lineInFile) plan.Edit {
		return plan.Edit{Path: l.Path, Target: l.Path + ": " + l.Text, Why: l.Why, Change: l.in}
	})...)
}

// templateFiles lists the templates, with their content in the manifest so that a
// scrub can restore them. A bootstrap.sh in the form of Amazon Linux 2 fills them
// in place; `eksnode init` writes its own files. The step templates is done when they are
// as provisioning writes them, so not on a machine that has joined a cluster since.
func (n *node) templateFiles() []plan.File {
	var files []plan.File
	program := []byte(path.Join(n.distro.CommandFolder, authenticator))
	for _, t := range templates.All() {
		// On a distribution with a read-only /usr, the program is elsewhere.
		content := bytes.ReplaceAll(t.Content, []byte("/usr/bin/"+authenticator), program)
		files = append(files, textFile(t.Path, content, t.Use))
	}
	return append(files, n.stepFiles("templates")...)
}
