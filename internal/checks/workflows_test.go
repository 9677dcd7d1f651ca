package checks

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// workflow has the fields of a GitHub workflow that the tests check.
type workflow struct {
	Name        string         `json:"name"`
	Permissions map[string]any `json:"permissions"`
	Jobs        map[string]struct {
		Timeout int `json:"timeout-minutes"`
		Steps   []struct {
			Uses string `json:"uses"`
			Run  string `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	found := map[string]workflow{}
	for _, name := range tracked(t) {
		if path.Dir(name) != ".github/workflows" {
			continue
		}
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), &w), name)
		found[name] = w
	}
	require.NotEmpty(t, found)
	return found
}

// An action must be pinned to a version in full, or to its commit.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+(/[\w.-]+)*@(v\d+\.\d+\.\d+|[0-9a-f]{40})$`)

func TestWorkflowsPinActionsAndCallExistingTargets(t *testing.T) {
	j := newJudge(t)
	for name, w := range workflows(t) {
		assert.NotEmpty(t, w.Permissions, "%s: permissions are missing", name)
		for job, steps := range w.Jobs {
			assert.NotZero(t, steps.Timeout, "%s, %s: timeout-minutes is missing", name, job)
			for _, step := range steps.Steps {
				if step.Uses != "" {
					assert.Regexp(t, pinned, step.Uses, name)
				}
				for line := range strings.Lines(step.Run) {
					line = strings.TrimSpace(line)
					if strings.HasPrefix(line, "make ") || strings.HasPrefix(line, "go run ") {
						assert.Empty(t, j.wrong(line), "%s: %s", name, line)
					}
				}
			}
		}
	}
}

// Dependabot updates eksnode's modules, those of the tools, and the actions.
func TestDependabotCoversAllDependencies(t *testing.T) {
	var config struct {
		Updates []struct {
			Ecosystem string `json:"package-ecosystem"`
		} `json:"updates"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, ".github/dependabot.yml")), &config))
	var names []string
	for _, u := range config.Updates {
		names = append(names, u.Ecosystem)
	}
	assert.ElementsMatch(t, []string{"gomod", "gomod", "github-actions"}, names)
}
