package provisioner

import (
	"cmp"
	_ "embed"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/bootunits"
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
