package scrub

import (
	"bytes"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

const goodRules = `# ours
rules:
  - id: our-agent
    phase: state
    groups: [agents]
    action: remove
    paths: [/var/lib/our-agent/id, "~/.our-agent"]
    keep: [/var/lib/our-agent/id.default]
    why: every node would report as one
  - id: our-logs
    phase: caches and logs
    action: empty
    paths: [/opt/ours/log]
    why: logs of the build
`

func TestParseRules(t *testing.T) {
	rules, err := ParseRules("ours.yaml", []byte(goodRules))
	require.NoError(t, err)
	require.Len(t, rules, 2)
	assert.Equal(t, Rule{
		ID: "our-agent", Phase: State, Groups: []string{"agents"}, Verb: plan.Remove,
		Paths: []string{"/var/lib/our-agent/id", "~/.our-agent"}, Keep: []string{"/var/lib/our-agent/id.default"},
		Why: "every node would report as one",
	}, rules[0])
	items := selected(t, Spec{Own: rules, Only: []string{"agents", "our-logs"}}, ToScrub)
	assert.Len(t, items, 2)
}

// ruleFiles has the mistakes and paths of testdata/rulefile.yaml.
func ruleFiles() (all struct {
	Texts             map[string]struct{ Text, Part, Becomes, Added, Want string }
	Refused, Accepted []string
	Messages, Keeps   map[string]string
}) {
	decode("testdata/rulefile.yaml", &all)
	return all
}

// decode reads a file of testdata. An unknown field is an error.
func decode(name string, into any) {
	text, err := os.ReadFile(name)
	if err == nil {
		known := yaml.NewDecoder(bytes.NewReader(text))
		known.KnownFields(true)
		err = known.Decode(into)
	}
	if err != nil {
		panic(err)
	}
}

func TestParseRulesRefuses(t *testing.T) {
	for name, c := range ruleFiles().Texts {
		t.Run(name, func(t *testing.T) {
			if c.Part != "" {
				c.Text = strings.Replace(goodRules, c.Part, c.Becomes, 1)
			} else if c.Added != "" {
				c.Text = goodRules + c.Added
			}
			_, err := ParseRules("r.yaml", []byte(c.Text))
			require.EqualError(t, err, c.Want)
		})
	}
}

// FuzzParseRules reads any rule file. FuzzCheckPath checks the paths.
func FuzzParseRules(f *testing.F) {
	f.Add(goodRules)
	f.Add("rules: [{id: a, paths: ['/a/b/../..']}]")
	for _, p := range []string{"//etc//passwd", "/e*c/pass?d", "/[u]sr/bin/*", "/usr/li?/systemd", "/boot/vmlinuz*", "~/.*", "~//x/", "/opt/ours/[a-z]*", `/opt/ours/\\*`, "/*/*/x", "/root/.*"} {
		f.Add("rules: [{id: a, phase: state, action: remove, owned: true, why: y, keep: ['~/x', '" + p + "'], paths: ['" + p + "']}]")
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseRules("r.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, r := range rules {
			require.NoError(t, check(r))
		}
	})
}

func TestEveryRuleHasAllFields(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		t.Run(r.ID, func(t *testing.T) {
			assert.False(t, seen[r.ID], "the ID is used twice")
			seen[r.ID] = true
			assert.Contains(t, append(slices.Clone(rule.Phases), Inspect), r.Phase)
			for field, value := range map[string]string{
				"owner": r.Owner, "why": r.Why, "regenerated": r.Regenerated, "source": r.Source, "verb": string(r.Verb),
			} {
				assert.NotEmpty(t, value, field)
			}
			assert.NotEmpty(t, r.Groups)
			assert.True(t, r.Look != nil || len(r.Paths) > 0, "the rule has neither paths nor a function")
			for _, p := range r.Paths {
				assert.True(t, path.IsAbs(p) || strings.HasPrefix(p, "~/"), p)
				_, err := path.Match(p, "")
				assert.NoError(t, err, p)
			}
		})
	}
}

func TestSelectionOfRules(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want []string
		err  string
	}{
		"one rule":         {spec: Spec{Only: []string{"machine-id"}}, want: []string{"machine-id"}},
		"a group":          {spec: Spec{Only: []string{"ssh"}}, want: []string{"ssh-host-keys", "ssh-host-keys-elsewhere", "ssh-people", "ssh-passwords", "authorized-keys-elsewhere", "authorized-keys"}},
		"a group less one": {spec: Spec{Only: []string{"ssh"}, Skip: []string{"ssh-people"}}, want: []string{"ssh-host-keys", "ssh-host-keys-elsewhere", "ssh-passwords", "authorized-keys-elsewhere", "authorized-keys"}},
		"unknown":          {spec: Spec{Only: []string{"machineid"}}, err: `rules: no rule, phase or group is named "machineid"; did you mean machine-id?`},
		"unknown skip":     {spec: Spec{Skip: []string{"x"}}, err: `skip_rules: no rule, phase or group is named "x"; known: access, account-backups, `},
		"none left":        {spec: Spec{Only: []string{"machine-id"}, Skip: []string{"identity"}}, err: "no rule is left"},
	} {
		t.Run(name, func(t *testing.T) {
			items, err := c.spec.Items(ToScrub, nil)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, c.spec.Validate(ToScrub, nil), c.err)
				return
			}
			require.NoError(t, err)
			ids := show.Each(items, func(i plan.Item) string { return i.ID() })
			assert.Equal(t, c.want, ids)
		})
	}
}

func selected(t *testing.T, spec Spec, m Mode, more ...Rule) []plan.Item {
	t.Helper()
	items, err := spec.Items(m, more)
	require.NoError(t, err)
	return items
}

// planned is what the selected rules have left to do or to find.
func planned(t *testing.T, h *host.Host, spec Spec, m Mode) []plan.Planned {
	t.Helper()
	return plan.Make(t.Context(), h, selected(t, spec, m))
}

func withPath(name string) Rule {
	return Rule{ID: "x", Phase: State, Verb: plan.Remove, Why: "y", Paths: []string{name}}
}

// Files that the machine needs to boot, package databases and a node's own files
// are refused in every spelling: the file, a parent folder, wildcards, the old
// name of a merged folder, repeated slashes.
func TestRulesForNeededFilesAreRefused(t *testing.T) {
	for _, name := range ruleFiles().Refused {
		err := check(withPath(name))
		if assert.Error(t, err, name) {
			assert.Contains(t, err.Error(), "matches too much", name)
		}
	}
}

// Leftover files of a build lie next to files that the system needs.
func TestRulesForLeftoverFilesAreAccepted(t *testing.T) {
	for _, name := range ruleFiles().Accepted {
		assert.NoError(t, check(withPath(name)), name)
	}
}

func TestMessagesOfRefusedPaths(t *testing.T) {
	for name, want := range ruleFiles().Messages {
		require.EqualError(t, check(withPath(name)), want, name)
	}
}

func TestKeepPathsAreChecked(t *testing.T) {
	for keep, want := range ruleFiles().Keeps {
		r := withPath("/opt/ours/log")
		r.Keep = []string{keep}
		if want == "" {
			assert.NoError(t, check(r), keep)
			continue
		}
		assert.EqualError(t, check(r), want, keep)
	}
}

func TestOwnedInARuleFileIsABoolean(t *testing.T) {
	rules, err := ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: true", 1)))
	require.NoError(t, err)
	require.Len(t, rules, 2)
	_, err = ParseRules("r.yaml", []byte(strings.Replace(goodRules, "action: remove", "action: remove\n    owned: perhaps", 1)))
	require.EqualError(t, err, "r.yaml:7: rules[0].owned: must be true or false, not text")
}
