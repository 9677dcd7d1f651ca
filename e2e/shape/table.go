package shape

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
)

// sources are the shapes: an archive for each, with shape.yaml and the files that it lays down.
// Files have their mode and path as name.
//
//go:embed shapes common.txtar sysext.txtar
var sources embed.FS

const sysextFiles = "sysext.txtar"

// row is shape.yaml.
type row struct {
	Shape
	// Like is a row of common.txtar, whose keys this row replaces.
	Like string
	// Shared are files of common.txtar.
	Shared []string
	// Manager is rpm, apt, pacman or sysext, with its settings.
	Manager struct {
		Name, Database, Suite, Keyring string
		Programs                       []string
	}
}

// All returns the shapes by the IDs of their distributions, with the release where
// there are several.
func All() map[string]Shape {
	names, err := fs.Glob(sources, "shapes/*.txtar")
	must(err)
	all := map[string]Shape{}
	for _, name := range names {
		all[strings.TrimSuffix(path.Base(name), ".txtar")] = read(name)
	}
	return all
}

// must ends a program whose own files are wrong.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func archive(name string) *txtar.Archive {
	text, err := sources.ReadFile(name)
	must(err)
	return txtar.Parse(text)
}

// filesOf returns the files of an archive that are laid down.
func filesOf(name string) (all []base.File) {
	for _, f := range archive(name).Files {
		if mode, at, isFile := strings.Cut(f.Name, " "); isFile {
			bits, err := strconv.ParseUint(mode, 8, 9)
			must(err)
			all = append(all, base.File{Path: at, Content: string(f.Data), Mode: fs.FileMode(bits)})
		}
	}
	return all
}

// removedLists returns removed.yaml.
func removedLists() (lists struct{ Every, Other, Managers []string }) {
	must(yaml.UnmarshalStrict(member("common.txtar", "removed.yaml"), &lists))
	return lists
}

// cloudConfig is what the distributions' images for EC2 have in common.
func cloudConfig(user string) string {
	return strings.ReplaceAll(string(member("common.txtar", "cloud.cfg")), "USER", user)
}

func member(name, of string) []byte {
	files := archive(name).Files
	i := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == of })
	if i < 0 {
		panic(fmt.Sprintf("%s has no %s", name, of))
	}
	return files[i].Data
}

// keys returns the keys of a row, with those of the rows that it is like.
func keys(name, row string) map[string]any {
	own, all := map[string]any{}, map[string]any{}
	must(yaml.Unmarshal(member(name, row), &own))
	if like, is := own["like"].(string); is {
		all = keys("common.txtar", like+".yaml")
	}
	maps.Copy(all, own)
	return all
}

func read(name string) Shape {
	text, err := yaml.Marshal(keys(name, "shape.yaml"))
	must(err)
	var r row
	must(yaml.UnmarshalStrict(text, &r))
	shared := filesOf("common.txtar")
	for _, at := range r.Shared {
		i := slices.IndexFunc(shared, func(f base.File) bool { return f.Path == at })
		r.Files = append(r.Files, shared[i])
	}
	r.Files = append(r.Files, filesOf(name)...)
	r.manager = map[string]manager{
		"rpm": rpmManager{r.Manager.Programs, r.Manager.Database}, "apt": aptManager{r.Manager.Suite, r.Manager.Keyring},
		"pacman": pacmanManager{}, "sysext": sysextManager{},
	}[r.Manager.Name]
	return r.Shape
}
