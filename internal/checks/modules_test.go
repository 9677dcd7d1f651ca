package checks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// `go mod tidy` changes neither go.mod nor go.sum. With -diff it prints the
// changes and fails.
func TestModulesAreTidy(t *testing.T) {
	run(t, "go", "mod", "tidy", "-diff")
}

// notForOthers are packages that are useless to programs outside this module,
// or cannot be imported there.
var notForOthers = regexp.MustCompile(`/(internal|e2e|plugin|docs|examples|livetest)(/|$)`)

// A program outside this module can import every public package without this
// module's replace lines, which apply to this module only.
func TestOtherModulesCanImportPublicPackages(t *testing.T) {
	var public []string
	for name := range strings.FieldsSeq(run(t, "go", "list", "-f", `{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}`, "./...")) {
		if !notForOthers.MatchString(strings.TrimPrefix(name, module)) {
			public = append(public, name)
		}
	}
	for _, name := range []string{"scrub", "distros", "userdata"} {
		require.Contains(t, public, module+"/"+name)
	}
	here, err := filepath.Abs(root)
	require.NoError(t, err)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "go.mod"), fmt.Sprintf("module example.com/outside\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, here))
	write(t, filepath.Join(outside, "go.sum"), read(t, "go.sum"))
	write(t, filepath.Join(outside, "main.go"), "package main\n\nimport (\n\t_ \""+strings.Join(public, "\"\n\t_ \"")+"\"\n)\n\nfunc main() {}\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", os.DevNull, ".")
	build.Dir = outside
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
}
