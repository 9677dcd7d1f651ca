//go:build full

package kubelet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

var update = flag.Bool("update", false, "write gates.txt, flags.txt and the verdicts")

// judges are the kubelets that judge, one for each minor version.
func judges() []string {
	list := lifecycle.Releases("kubelet")
	slices.Sort(list)
	return list
}

// judged is what the program in testdata/judge prints.
type judged struct {
	Gates map[string]struct {
		Default  bool     `json:"default"`
		Stage    string   `json:"stage"`
		Locked   bool     `json:"locked"`
		Requires []string `json:"requires"`
	} `json:"gates"`
	Flags map[string]struct {
		Type  string `json:"type"`
		Field string `json:"field"`
	} `json:"flags"`
	Verdicts [][]string `json:"verdicts"`
}

// TestKubeletsJudge has the code of each kubelet judge all starts, and each gate and flag
// by itself. It takes minutes to compile.
func TestKubeletsJudge(t *testing.T) {
	all, _ := starts(t)
	stored := len(all)
	for _, name := range Gates() {
		for _, on := range []bool{true, false} {
			all = append(all, start{User: map[string]any{"featureGates": map[string]any{name: on}}})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(Flags())) {
		if !slices.Contains(judgedElsewhere(), name) && !strings.HasPrefix(name, "windows-") {
			for _, value := range []string{"true", "x", "7", "-7", "0x10", "7s", "1.5", "a=b", "a<b", "1.2.3.4", "a=true", "a,b", "99999999999"} {
				all = append(all, start{Flags: []string{"--" + name + "=" + value}})
			}
		}
	}
	var lines strings.Builder
	refusals := make([][]string, len(all))
	said := make([]string, len(all))
	for i, version := range judges() {
		minor := Oldest + i
		for n, verdict := range judge(t, version, minor, all).Verdicts {
			if len(verdict) > 0 {
				refusals[n] = append(refusals[n], fmt.Sprint(minor))
				said[n] = verdict[0]
			}
			assert.Equal(t, len(verdict) > 0, len(all[n].problems(minor)) > 0, "%s: %s:\nkubelet %q\nours %v", version, all[n], verdict, all[n].problems(minor))
		}
	}
	for n, s := range all[:stored] {
		fmt.Fprintf(&lines, "%s\t%s\t%.120q\n", s, strings.Join(refusals[n], ","), said[n])
	}
	compare(t, verdictsFile, lines.String())
}

// TestTablesAreThoseOfKubelets compares gates.txt, and the types and fields of flags.txt.
func TestTablesAreThoseOfKubelets(t *testing.T) {
	gates, flags, last := map[string]map[int]string{}, Flags(), map[string]int{}
	for i, version := range judges() {
		minor := Oldest + i
		got := judge(t, version, minor, []start{})
		for name, g := range got.Gates {
			words := []string{strings.ToLower(cmp.Or(g.Stage, "ga"))}
			for word, is := range map[string]bool{"on": g.Default, "locked": g.Locked} {
				if is {
					words = append(words, word)
				}
			}
			slices.Sort(words[1:])
			if len(g.Requires) > 0 {
				words = append(words, "needs="+strings.Join(g.Requires, ","))
			}
			if gates[name] == nil {
				gates[name] = map[int]string{}
			}
			gates[name][minor] = strings.Join(words, ":")
		}
		for name := range flags {
			if _, there := got.Flags[name]; there {
				last[name] = minor
			}
		}
		for name, f := range got.Flags {
			if known := flags[name]; !known.Boolean() {
				assert.NotEmpty(t, known.Name, "%s: --%s is missing in flags.txt", version, name)
				flags[name] = Flag{Name: name, Type: strings.ReplaceAll(f.Type, " ", "-"), Last: known.Last, Field: f.Field}
			} else {
				known.Field = cmp.Or(f.Field, known.Field)
				flags[name] = known
			}
		}
	}
	for name, f := range flags {
		if minor := last[name]; minor > 0 && minor < Newest {
			f.Last = fmt.Sprint(minor)
			flags[name] = f
		}
	}
	var text strings.Builder
	text.WriteString("# The kubelets' feature gates and their spans of minor versions: stage, default and\n" +
		"# whether it is fixed. Source: k8s.io/kubernetes " + strings.Join(judges(), ", ") + ". See make kubelet.\n")
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		text.WriteString(name)
		for from := Oldest; from <= Newest; from++ {
			to := from
			for to < Newest && gates[name][to+1] == gates[name][from] {
				to++
			}
			if what := gates[name][from]; what != "" {
				fmt.Fprintf(&text, " %d-%d:%s", from, to, what)
			}
			from = to
		}
		text.WriteString("\n")
	}
	compare(t, "gates.txt", text.String())
	compare(t, "flags.txt", flagLines(flags))
}

// flagLines is flags.txt with other types and fields.
func flagLines(flags map[string]Flag) string {
	var text strings.Builder
	for line := range strings.Lines(flagTable) {
		words := strings.Fields(line)
		if f, known := flags[words[0]]; known {
			line = fmt.Sprintf("%s %s %s %s %s\n", words[0], f.Type, words[2], cmp.Or(f.Last, "-"), cmp.Or(f.Field, "-"))
		}
		text.WriteString(line)
	}
	return text.String()
}

// judgedElsewhere are flags that userdata or a later part of the kubelet checks, or of unusual types.
func judgedElsewhere() []string {
	return []string{
		"eviction-soft", "node-labels", "register-with-taints", "reserved-memory", "vmodule", "version", "help",
		"manifest-url-header", "log-text-info-buffer-size", "log-json-info-buffer-size",
	}
}

func compare(t *testing.T, name, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
	assert.Equal(t, testkit.Content(t, name), text)
}

// judge builds the program against a kubelet's module and runs it.
func judge(t *testing.T, version string, minor int, all []start) judged {
	t.Helper()
	folder := t.TempDir()
	module, err := tools.Module(t.Context(), "k8s.io/kubernetes", version)
	require.NoError(t, err)
	source := testkit.Content(t, "testdata/judge/main.go")
	require.NoError(t, os.WriteFile(filepath.Join(folder, "go.mod"), module, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), []byte(source), 0o644))
	type given struct {
		Base   map[string]any
		DropIn map[string]any `json:",omitempty"`
		Flags  []string
	}
	var input []given
	for _, s := range all {
		input = append(input, given{Base(minor), s.User, s.Flags})
	}
	text, err := json.Marshal(input)
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), "nice", "go", "run", ".")
	command.Dir, command.Stdin = folder, bytes.NewReader(text)
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod", "GOWORK=off")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, "%s", stderr.String())
	got := testkit.JSON[judged](t, out)
	return got
}

// TestKubeletFlagsAreThoseOfKubelets compares the table of flags with the help
// text of each kubelet that the end-to-end tests use.
func TestKubeletFlagsAreThoseOfKubelets(t *testing.T) {
	kubelet, _, err := tools.Find(tools.NameKubelet, "")
	require.NoError(t, err)
	for _, version := range kubelet.Versions {
		t.Run(version, func(t *testing.T) {
			program, err := tools.Build(t.Context(), tools.NameKubelet, version, runtime.GOARCH, t.Output())
			require.NoError(t, err)
			help, err := exec.CommandContext(t.Context(), program, "--help").CombinedOutput()
			require.NoError(t, err, "%s", help)
			minor, err := strconv.Atoi(strings.Split(version, ".")[1])
			require.NoError(t, err)
			assert.Equal(t, flagsOfHelp(string(help)), flagsOfTable(t, minor))
		})
	}
}

// flagsOfHelp returns the flags of a help text; true for those without a value.
func flagsOfHelp(help string) map[string]bool {
	line := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-zA-Z0-9_-]+)(?: (\S+))?(?: |$)`)
	flags := map[string]bool{}
	for _, found := range line.FindAllStringSubmatch(help, -1) {
		// pflag shows seccomp-default with the word in backquotes of its
		// description, and version with the values that it takes after =.
		boolean := found[2] == "" || found[1] == "seccomp-default" || strings.Contains(found[2], "[=")
		flags[found[1]] = boolean
	}
	return flags
}

// flagsOfTable returns the flags in the table that kubelets of a minor version
// for Linux have; true for those without a value.
func flagsOfTable(t *testing.T, minor int) map[string]bool {
	t.Helper()
	flags := map[string]bool{}
	for line := range strings.Lines(flagTable) {
		words := strings.Fields(line)
		if len(words) != 5 || words[0] == "#" || strings.HasPrefix(words[0], "windows-") {
			continue
		}
		bounds := slices.Clone(words[2:4])
		for i, other := range []string{"0", "1000"} {
			if bounds[i] == "-" {
				bounds[i] = other
			}
		}
		from, err := strconv.Atoi(bounds[0])
		require.NoError(t, err)
		last, err := strconv.Atoi(bounds[1])
		require.NoError(t, err)
		if from <= minor && minor <= last {
			flags[words[0]] = words[1] == "bool"
		}
	}
	return flags
}
