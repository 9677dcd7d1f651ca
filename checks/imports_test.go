package checks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mayImport are the rooms and which others each may import: a change of this
// table is a change of the architecture, and of docs/architecture.md.
var mayImport = map[string][]string{
	"version":     {},
	"strictjson":  {},
	"host":        {},
	"templates":   {},
	"plan":        {"host"},
	"manifest":    {"host", "strictjson"},
	"bootstrap":   {"host", "plan", "manifest", "templates"},
	"cluster":     {"strictjson"},
	"userdata":    {"bootstrap"},
	"preflight":   {"cluster", "userdata"},
	"manifests":   {},
	"scrub":       {"host", "plan", "manifest", "containerd", "templates"},
	"distros":     {"host", "plan", "scrub"},
	"artifact":    {"host", "plan", "manifest", "strictjson", "version"},
	"containerd":  {"host"},
	"provisioner": {"host", "plan", "manifest", "templates", "bootstrap", "distros", "artifact", "containerd", "version"},
	"agent":       {"host", "plan", "scrub", "distros", "artifact", "provisioner"},
	"cmd":         {"host", "plan", "scrub", "distros", "provisioner", "artifact", "manifest", "agent", "bootstrap", "cluster", "userdata", "preflight", "manifests", "strictjson", "version"},
	"plugin":      {"plan", "scrub", "distros", "provisioner", "artifact", "agent", "cluster", "version"},
	"docs":        {"host", "plan", "scrub", "distros", "artifact", "preflight", "version"},
	"release":     {"version"},
	"checks":      {},
	"e2e":         {"host", "plan", "manifest", "templates", "scrub", "distros", "artifact", "provisioner", "agent", "bootstrap", "cluster", "plugin", "version"},
}

// onlyIn are the rooms, by module, that alone may import it, besides the
// harness. The agent stays small because the plugin's and AWS's libraries do
// not reach it.
var onlyIn = map[string]string{
	"github.com/hashicorp/packer-plugin-sdk": "plugin",
	"github.com/hashicorp/hcl":               "plugin",
	"github.com/zclconf/go-cty":              "plugin",
	"github.com/aws/aws-sdk-go-v2":           "cluster",
}

// listed is a package as `go list -json` prints it.
type listed struct {
	ImportPath string
	Imports    []string
}

// roomOf is the room of one of the module's packages; "" for others.
func roomOf(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	room, _, _ := strings.Cut(rest, "/")
	return room
}

func packages(t *testing.T) []listed {
	t.Helper()
	var list []listed
	d := json.NewDecoder(strings.NewReader(run(t, "go", "list", "-tags", "e2e", "-json=ImportPath,Imports", "./...")))
	for {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		list = append(list, p)
	}
	require.NotEmpty(t, list)
	return list
}

// against lists what is wrong with what a package imports, by these tables.
func against(p listed) []string {
	var wrong []string
	from := roomOf(p.ImportPath)
	allowed, known := mayImport[from]
	if !known {
		return []string{fmt.Sprintf("%s: the room %q has no row in mayImport; give it one, and a place in docs/architecture.md", p.ImportPath, from)}
	}
	for _, imported := range p.Imports {
		if to := roomOf(imported); to != "" && to != from && !slices.Contains(allowed, to) {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s may import only %s", p.ImportPath, imported, from, strings.Join(allowed, ", ")))
		}
		for library, room := range onlyIn {
			if (imported == library || strings.HasPrefix(imported, library+"/")) && from != room && from != "e2e" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: only %s may", p.ImportPath, imported, room))
			}
		}
	}
	return wrong
}

func TestRoomsImportOneWay(t *testing.T) {
	for _, p := range packages(t) {
		assert.Empty(t, against(p))
	}
}

// The table itself must have a direction.
func TestTheDirectionHasNoCircle(t *testing.T) {
	left := map[string][]string{}
	for room, allowed := range mayImport {
		left[room] = slices.Clone(allowed)
	}
	for len(left) > 0 {
		before := len(left)
		for room, allowed := range left {
			free := !slices.ContainsFunc(allowed, func(to string) bool { _, there := left[to]; return there })
			if free {
				delete(left, room)
			}
		}
		require.Less(t, len(left), before, "these rooms import each other: %v", left)
	}
}

func TestAnImportAgainstTheDirectionIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		p    listed
		want string
	}{
		"upwards": {listed{module + "/scrub", []string{"fmt", module + "/distros"}},
			module + "/scrub imports " + module + "/distros: scrub may import only host, plan, manifest, containerd, templates"},
		"the harness in the product": {listed{module + "/agent", []string{module + "/e2e/tools"}},
			module + "/agent imports " + module + "/e2e/tools: agent may import only host, plan, scrub, distros, artifact, provisioner"},
		"the SDK outside the plugin": {listed{module + "/agent", []string{"github.com/hashicorp/packer-plugin-sdk/packer"}},
			module + "/agent imports github.com/hashicorp/packer-plugin-sdk/packer: only plugin may"},
		"a new room": {listed{module + "/util", nil},
			module + `/util: the room "util" has no row in mayImport; give it one, and a place in docs/architecture.md`},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, []string{c.want}, against(c.p)) })
	}
	assert.Empty(t, against(listed{module + "/plugin/scrub", []string{module + "/plugin/remote", module + "/scrub", "github.com/hashicorp/hcl/v2/hcldec"}}))
}

// docs/architecture.md draws the rooms; none may be missing there.
func TestTheArchitectureNamesEveryRoom(t *testing.T) {
	text := read(t, "docs/architecture.md")
	for room := range mayImport {
		assert.Contains(t, text, "`"+room+"/`", "docs/architecture.md does not describe the room %s", room)
	}
}
