package checks

import (
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
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
	text := read(t, ".github/workflows/shapes.yml")
	assert.Regexp(t, `(?m)^ +- cron: "\d+ \d+ \* \* [0-6]"$`, text)
	for _, line := range []string{
		"go run ./e2e/shape/names > names", `echo "names=$(cat names)" >> "$GITHUB_OUTPUT"`, "names: ${{ steps.names.outputs.names }}",
		"shape: ${{ fromJSON(needs.names.outputs.names) }}", `- run: make e2e-full DISTRO="$SHAPE"`, "SHAPE: ${{ matrix.shape }}", "if: always()",
	} {
		assert.Contains(t, text, " "+line+"\n")
	}
	steps := workflows(t)[".github/workflows/shapes.yml"].Jobs["join"].Steps
	keep := steps[len(steps)-1]
	assert.Contains(t, keep.Uses, "actions/upload-artifact@")
	assert.Contains(t, keep.With["path"], "build/join/*.txt")
}

// actionlint checks the syntax, the expressions, what jobs take from each other, and the
// scripts with shellcheck.
func TestWorkflowsPassActionlint(t *testing.T) {
	for name := range workflows(t) {
		linter, err := actionlint.NewLinter(t.Output(), &actionlint.LinterOptions{Shellcheck: "shellcheck"})
		require.NoError(t, err)
		found, err := linter.Lint(name, []byte(read(t, name)), nil)
		require.NoError(t, err)
		assert.Empty(t, found)
	}
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
