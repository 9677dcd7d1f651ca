//go:build full

package breakers_test

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// world is the script that makes a world of folders, networks and programs for one
// case: $1 has the programs, $2 is the setting and $3 the command.
//
//go:embed testdata/world.sh
var world string

//go:embed testdata/breaks.yaml
var breaksFile []byte

// broken is a row of testdata/breaks.yaml.
type broken struct {
	Rule                                    string
	Files                                   map[string]string
	Setting, Prepared, Command, Says, Cause string
}

func TestBreakersBreakRealPrograms(t *testing.T) {
	require.NoError(t, base.Install(t.Context(), t.Output(), "busybox-static", "iproute2", "iptables", "procps", "util-linux"))
	programs := t.TempDir()
	for name, unpack := range map[string]string{
		tools.NameContainerd: `tar -xzf "$1" -C "$2"`, tools.NameCNIPlugins: `mkdir "$2/cni"; tar -xzf "$1" -C "$2/cni"`,
		tools.NameRunc: `cp "$1" "$2/bin/runc"`, tools.NameKubelet: `cp "$1" "$2/bin/kubelet"`,
	} {
		path, err := tools.Build(t.Context(), name, "", runtime.GOARCH, t.Output())
		require.NoError(t, err)
		testkit.Run(t, "sh", "-euc", `mkdir -p "$2/bin"; `+unpack, "sh", path, programs)
	}
	var breaks []broken
	require.NoError(t, yaml.UnmarshalStrict(breaksFile, &breaks))
	for _, b := range breaks {
		t.Run(b.Rule, func(t *testing.T) {
			assert.Contains(t, audited(t, b.Files, b.Rule), b.Rule, "the audit must find the setting")
			calm := said(t, programs, b.Prepared, b.Command)
			assert.NotContains(t, calm, b.Says, "without the setting")
			out := said(t, programs, b.Setting, b.Command)
			assert.Contains(t, out, b.Says)
			t.Logf("%s: %.200s", b.Rule, lineWith(out, b.Says))
			if b.Cause != "" { // a program that drops packets says nothing
				before, causes := diagnosed(t, calm), diagnosed(t, out)
				causes = slices.DeleteFunc(causes, func(c string) bool { return slices.Contains(before, c) })
				require.NotEmpty(t, causes)
				assert.Equal(t, b.Cause, causes[0], "%q", causes)
			}
		})
	}
}

// audited is the audit of a root with these files, by one rule.
func audited(t *testing.T, files map[string]string, rule string) (found []string) {
	h := hosttest.Root(t, files)
	hosttest.Lay(t, h.Root(), map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n"})
	report, _ := eksnode.Audit(t.Context(), h, scrub.Spec{Only: []string{rule}},
		eksnode.Options{}) // a finding is an error
	for _, p := range report.Plan {
		found = append(found, p.Item)
	}
	return found
}

// said is what a command says in a new world.
func said(t *testing.T, programs, setting, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := filepath.Join(t.TempDir(), "world.sh")
	require.NoError(t, os.WriteFile(script, []byte(world), 0o600))
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", script, programs, setting, command)
	out, _ := cmd.CombinedOutput() // the words say more than the code
	return string(out)
}

// diagnosed are the causes that diagnose finds in what a program says.
func diagnosed(t *testing.T, text string) (causes []string) {
	s := diagnose.NewSearch(t.Context())
	require.NoError(t, s.Log(diagnose.Log{Name: "node", Text: strings.NewReader(text)}))
	for _, f := range s.Report().Findings {
		causes = append(causes, f.Rule.ID)
	}
	return causes
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
