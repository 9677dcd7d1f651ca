package scrub

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
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
	assert.Equal(t, OwnRule{
		ID: "our-agent", Phase: State, Groups: []string{"agents"}, Action: plan.Remove,
		Paths: []string{"/var/lib/our-agent/id", "~/.our-agent"}, Keep: []string{"/var/lib/our-agent/id.default"},
		Why: "every node would report as one",
	}, rules[0])
	items, err := Spec{Own: rules, Only: []string{"agents", "our-logs"}}.Items(nil)
	require.NoError(t, err)
	assert.Len(t, items, 2)
}

func TestParseRulesRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", `r.yaml: the file is empty; list rules under "rules"`},
		"no rules":          {"rules: []\n", `r.yaml: the file has no rules; list them under "rules"`},
		"an unknown field":  {strings.Replace(goodRules, "why: every", "reason: every", 1), "r.yaml:9: field reason not found; " + ruleFields},
		"an unknown top":    {"rule: []\n", "r.yaml:1: field rule not found; " + ruleFields},
		"broken YAML":       {"rules:\n  - id: [\n", "r.yaml:2: did not find expected node content"},
		"a wrong type":      {strings.Replace(goodRules, "paths: [/opt/ours/log]", "paths: /opt/ours/log", 1), "r.yaml:13: cannot unmarshal !!str `/opt/ou...` into []string; " + ruleFields},
		"two documents":     {goodRules + "---\nrules: []\n", `r.yaml: the file has a second YAML document; put all rules under one "rules"`},
		"an ID of eksnode":  {strings.Replace(goodRules, "id: our-agent", "id: machine-id", 1), `r.yaml:3: rule 1: id: "machine-id" is a rule or group of eksnode; choose another`},
		"an ID twice":       {strings.Replace(goodRules, "id: our-logs", "id: our-agent", 1), `r.yaml:10: rule 2: id: "our-agent" is used twice`},
		"a phase":           {strings.Replace(goodRules, "phase: state", "phase: quiesce", 1), `r.yaml:4: rule 1: phase: "quiesce" is none of state, identity, caches and logs, access`},
		"an action":         {strings.Replace(goodRules, "action: remove", "action: run", 1), `r.yaml:6: rule 1: action: "run" is neither "remove" nor "empty"`},
		"no reason":         {strings.Replace(goodRules, "    why: every node would report as one\n", "", 1), "r.yaml:3: rule 1: why: missing; say what goes wrong if an image contains these files"},
		"a relative path":   {strings.Replace(goodRules, "/opt/ours/log", "opt/ours", 1), `r.yaml:13: rule 2: paths: "opt/ours" must be absolute or start with "~/"`},
		"a path upwards":    {strings.Replace(goodRules, "/opt/ours/log", "/opt/../etc/x", 1), `r.yaml:13: rule 2: paths: "/opt/../etc/x" must not contain "." or ".."`},
		"the root":          {strings.Replace(goodRules, "/opt/ours/log", "/", 1), `r.yaml:13: rule 2: paths: "/" matches too much: the rule would remove a top folder of the system or a whole home`},
		"a top folder":      {strings.Replace(goodRules, "/opt/ours/log", "/etc/*", 1), `r.yaml:13: rule 2: paths: "/etc/*" matches too much: the rule would remove a top folder of the system or a whole home`},
		"a home":            {strings.Replace(goodRules, "/opt/ours/log", `"~/*"`, 1), `r.yaml:13: rule 2: paths: "~/*" matches too much: the rule would remove a top folder of the system or a whole home`},
		"a class of all":    {strings.Replace(goodRules, "/opt/ours/log", `"/etc/[a-z]*"`, 1), `r.yaml:13: rule 2: paths: "/etc/[a-z]*" matches too much: the rule would remove a top folder of the system or a whole home`},
		"all of /var/lib":   {strings.Replace(goodRules, "/opt/ours/log", "/var/lib/*", 1), `r.yaml:13: rule 2: paths: "/var/lib/*" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`},
		"part of /usr":      {strings.Replace(goodRules, "/opt/ours/log", `"/usr/l*"`, 1), `r.yaml:13: rule 2: paths: "/usr/l*" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`},
		"the accounts":      {strings.Replace(goodRules, "/opt/ours/log", "/etc/passwd", 1), `r.yaml:13: rule 2: paths: "/etc/passwd" matches too much: the rule would remove a folder or file that the system needs; list files inside the folder instead`},
		"a list of texts":   {"rules: [x]\n", "r.yaml:1: cannot unmarshal !!str `x` into scrub.OwnRule; " + ruleFields},
		"no list of rules":  {"rules: {id: x}\n", "r.yaml:1: cannot unmarshal !!map into []scrub.OwnRule; " + ruleFields},
		"a list for a text": {"rules:\n  - id: [x]\n", "r.yaml:2: cannot unmarshal !!seq into string; " + ruleFields},
		"an open wildcard":  {strings.Replace(goodRules, "/opt/ours/log", `"/opt/ours/[a"`, 1), `r.yaml:13: rule 2: paths: "/opt/ours/[a" has a wildcard without an end; see path.Match`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRules("r.yaml", []byte(c.text))
			require.EqualError(t, err, c.want)
		})
	}
}

// Own rules that do not come from a rule file are checked too.
func TestOwnRulesOfASpecAreChecked(t *testing.T) {
	_, err := Spec{Own: []OwnRule{{ID: "x", Phase: State, Action: plan.Remove, Why: "y", Paths: []string{"/etc"}}}}.Items(nil)
	require.EqualError(t, err, `own rule "x": paths: "/etc" matches too much: the rule would remove a top folder of the system or a whole home`)
}

// FuzzParseRules reads any rule file. No path of an accepted rule matches a file
// that the system needs, or a folder above one.
func FuzzParseRules(f *testing.F) {
	f.Add(goodRules)
	f.Add("rules: [{id: a, paths: ['/a/b/../..']}]")
	for _, p := range []string{"//etc//passwd", "/e*c/pass?d", "/[u]sr/bin/*", "/usr/li?/systemd", "/boot/vmlinuz*", "~/.*", "~//x/", "/opt/ours/[a-z]*", `/opt/ours/\\*`, "/*/*/x", "/root/.*"} {
		f.Add("rules: [{id: a, phase: state, action: remove, owned: true, why: y, keep: ['~/x', '" + p + "'], paths: ['" + p + "']}]")
	}
	single, whole := needed()
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseRules("r.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, r := range rules {
			require.NoError(t, r.check())
			for _, p := range r.Paths {
				for _, place := range slices.Concat(single, whole) {
					for ; place != "/"; place = path.Dir(place) {
						matches, err := path.Match(path.Clean(p), place)
						require.NoError(t, err)
						require.False(t, matches, "%s matches %s, which the system needs", p, place)
					}
				}
			}
		}
	})
}
