package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// start is a start of a kubelet with the base configuration of its minor version.
type start struct {
	User  map[string]any `json:"user,omitempty"`
	Flags []string       `json:"flags,omitempty"`
}

func (s start) String() string {
	text, _ := json.Marshal(s) // cannot fail
	return string(text)
}

func (s start) problems(minor int) []Problem {
	return Problems(minor, Base(minor), s.User, s.Flags)
}

// verdictsFile has a start in each line: configurations at the bounds of each rule, and pairs of
// settings that rules connect. After a tab, the minor versions follow whose kubelets refuse the
// start, and what one says. For a new line, `make kubelet` adds them.
const verdictsFile = "testdata/verdicts.txt"

// starts are those of verdictsFile, with the minor versions that refuse each.
func starts(t *testing.T) (all []start, refused []string) {
	t.Helper()
	for line := range strings.Lines(testkit.Content(t, verdictsFile)) {
		text, verdict, judged := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		minors, _, _ := strings.Cut(verdict, "\t")
		if !judged {
			minors = "no verdict"
		}
		all, refused = append(all, testkit.JSON[start](t, text)), append(refused, minors)
	}
	return all, refused
}

// TestRulesAreThoseOfKubelets compares the rules with what the code of each kubelet says
// about the same starts.
func TestRulesAreThoseOfKubelets(t *testing.T) {
	all, refused := starts(t)
	for i, s := range all {
		require.NotEqual(t, "no verdict", refused[i], "%s: run make kubelet", s)
		for minor := Oldest; minor <= Newest; minor++ {
			want := slices.Contains(strings.Split(refused[i], ","), fmt.Sprint(minor))
			assert.Equal(t, want, len(s.problems(minor)) > 0, "1.%d: %s: %v", minor, s, s.problems(minor))
		}
	}
}
