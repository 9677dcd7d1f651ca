//go:build full

package kubelet

import (
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// onlyOnWindows are flags that kubelets for Linux do not have.
func onlyOnWindows(flag string) bool { return strings.HasPrefix(flag, "windows-") }

// TestKubeletFlagsAreThoseOfKubelets compares the table of flags with the help
// text of each kubelet that the end-to-end tests use.
func TestKubeletFlagsAreThoseOfKubelets(t *testing.T) {
	kubelet, _, err := tools.Find(tools.NameKubelet, "")
	require.NoError(t, err)
	for _, version := range kubelet.Versions {
		t.Run(version, func(t *testing.T) {
			program, err := tools.Kubelet(t.Context(), version, runtime.GOARCH, t.Output())
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
		if len(words) != 5 || words[0] == "#" || onlyOnWindows(words[0]) {
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
