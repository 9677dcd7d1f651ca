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
		Timeout     int            `json:"timeout-minutes"`
		Permissions map[string]any `json:"permissions"`
		Steps       []struct {
			Uses string         `json:"uses"`
			Run  string         `json:"run"`
			With map[string]any `json:"with"`
		} `json:"steps"`
	} `json:"jobs"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	found := map[string]workflow{}
	for _, name := range tracked(t) {
		if path.Dir(name) != ".github/workflows" && (path.Dir(name) != "examples/github-actions" || path.Ext(name) != ".yml") {
			continue
		}
		var w workflow
		require.NoError(t, yaml.Unmarshal([]byte(read(t, name)), &w), name)
		found[name] = w
	}
	require.NotEmpty(t, found)
	return found
}

// An action must be pinned to its commit, because whoever owns an action can move its
// tags. The comment names the version, which Dependabot keeps.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w.-]+(/[\w.-]+)*@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

func TestWorkflowsPinActionsAndCallExistingTargets(t *testing.T) {
	j := newJudge(t)
	for name, w := range workflows(t) {
		for line := range strings.Lines(read(t, name)) {
			if _, used, ok := strings.Cut(line, "uses:"); ok {
				assert.Regexp(t, pinned, strings.TrimSpace(used), name)
			}
		}
		for job, steps := range w.Jobs {
			assert.NotZero(t, steps.Timeout, "%s, %s: timeout-minutes is missing", name, job)
			for _, step := range steps.Steps {
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

// A job may write only what is listed here: tests, tools and actions run with the
// token of their job.
func TestWorkflowsHaveTheLeastPermissions(t *testing.T) {
	writing := map[string]map[string]any{
		".github/workflows/versions.yml versions": {"contents": "read", "issues": "write"},
		".github/workflows/release.yml release":   {"contents": "write", "id-token": "write", "attestations": "write"},
		"examples/github-actions/image.yml image": {"contents": "read", "id-token": "write"},
	}
	for name, w := range workflows(t) {
		assert.Equal(t, map[string]any{"contents": "read"}, w.Permissions, "%s: permissions", name)
		for job, j := range w.Jobs {
			assert.Equal(t, writing[name+" "+job], j.Permissions, "%s, %s: permissions", name, job)
			for _, step := range j.Steps {
				if strings.HasPrefix(step.Uses, "actions/checkout@") {
					assert.Equal(t, false, step.With["persist-credentials"], "%s, %s: checkout keeps the token on the disk", name, job)
				}
				if len(j.Permissions) > 0 {
					assert.NotRegexp(t, `make (.* )?(test|e2e|image)`, step.Run, "%s, %s: tests run with permission to write", name, job)
				}
			}
		}
	}
	assert.NotContains(t, read(t, ".github/workflows/release.yml"), "actions/cache@", "another workflow may have filled the cache")
}

// Every week, each shape runs as a job of its own, and its table is kept. The list of
// the jobs comes from the shapes themselves, so no shape can be missing.
func TestEveryShapeRunsWeekly(t *testing.T) {
	const name = ".github/workflows/shapes.yml"
	var w struct {
		On struct {
			Schedule []struct {
				Cron string `json:"cron"`
			} `json:"schedule"`
		} `json:"on"`
		Jobs struct {
			Names struct {
				Outputs map[string]string `json:"outputs"`
			} `json:"names"`
			Join struct {
				Needs    string `json:"needs"`
				Strategy struct {
					Matrix map[string]string `json:"matrix"`
				} `json:"strategy"`
				Steps []struct {
					Uses string            `json:"uses"`
					Run  string            `json:"run"`
					If   string            `json:"if"`
					Env  map[string]string `json:"env"`
					With map[string]any    `json:"with"`
				} `json:"steps"`
			} `json:"join"`
		} `json:"jobs"`
	}
	// YAML 1.1 reads the key on as a boolean.
	require.NoError(t, yaml.Unmarshal([]byte(strings.Replace(read(t, name), "\non:", "\n\"on\":", 1)), &w))
	require.Len(t, w.On.Schedule, 1)
	assert.Regexp(t, `^\d+ \d+ \* \* [0-6]$`, w.On.Schedule[0].Cron)
	names := workflows(t)[name].Jobs["names"].Steps
	assert.Contains(t, names[len(names)-1].Run, "go run ./e2e/shape/names > names\n")
	assert.Equal(t, map[string]string{"names": "${{ steps.names.outputs.names }}"}, w.Jobs.Names.Outputs)
	assert.Equal(t, "names", w.Jobs.Join.Needs)
	assert.Equal(t, map[string]string{"shape": "${{ fromJSON(needs.names.outputs.names) }}"}, w.Jobs.Join.Strategy.Matrix)
	steps := w.Jobs.Join.Steps
	require.GreaterOrEqual(t, len(steps), 2)
	run, keep := steps[len(steps)-2], steps[len(steps)-1]
	assert.Equal(t, `make e2e-full DISTRO="$SHAPE"`, run.Run)
	assert.Equal(t, map[string]string{"SHAPE": "${{ matrix.shape }}"}, run.Env)
	assert.Contains(t, keep.Uses, "actions/upload-artifact@")
	assert.Equal(t, "always()", keep.If)
	assert.Contains(t, keep.With["path"], "build/join/*.txt")
}

// Only the chain on the shape runs with DISTRO.
func TestOneShapeOfTheLongTests(t *testing.T) {
	j := newJudge(t)
	said, err := j.try("make", "-nB", "e2e-full", "DISTRO=arch")
	require.NoError(t, err, said)
	assert.Contains(t, said, "-tags e2e,full ./e2e/join -run '^TestChainOnShapes$' -distro arch\n")
	assert.NotContains(t, said, "./e2e/kills")
	said, err = j.try("make", "-nB", "e2e-full")
	require.NoError(t, err, said)
	assert.Contains(t, said, "./e2e/kills -kills 100")
	assert.NotContains(t, said, "-distro")
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
