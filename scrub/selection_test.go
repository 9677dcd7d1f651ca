//go:build linux

package scrub

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A selection that leaves a scrub or an audit nothing to do is an error, not a
// success.
func TestSelectionsThatDoNothingAreRefused(t *testing.T) {
	const (
		scrubs = "rules: the selected rules only report, so a scrub would change nothing: run an audit with these rules, or also select rules that remove something"
		audits = "rules: the selected rules only stop programs, so an audit would check nothing: also select rules that look for leftover state"
	)
	for name, c := range map[string]struct {
		spec         Spec
		scrub, audit string
	}{
		"a rule of the audit":         {Spec{Only: []string{"secrets-left"}}, scrubs, ""},
		"rules of the audit":          {Spec{Only: []string{"assets", "host-firewall", "kernel-modules"}}, scrubs, ""},
		"the rest of a group":         {Spec{Only: []string{"secrets-left", "pki"}, Skip: []string{"kubelet-pki", "cluster-ca"}}, scrubs, ""},
		"a rule of the audit and one": {Spec{Only: []string{"secrets-left", "hostname"}}, "", ""},
		"with a wipe":                 {Spec{Only: []string{"secrets-left"}, WipeFreeSpace: true}, "", ""},
		"a rule of a scrub":           {Spec{Only: []string{"kubelet-running"}}, "", audits},
		"everything":                  {Spec{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, items := c.spec.Items(ToScrub, nil)
			_, planned := c.spec.Items(ToPlan, nil)
			_, audited := c.spec.Items(ToAudit, nil)
			for _, err := range []error{items, planned, c.spec.Validate(ToScrub, nil)} {
				if c.scrub == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.scrub)
				}
			}
			for _, err := range []error{audited, c.spec.Validate(ToAudit, nil)} {
				if c.audit == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.audit)
				}
			}
		})
	}
}

// The names of an operator's rules must be usable, and must not be those of
// other rules, also of a distribution.
func TestNamesOfOwnRulesAreChecked(t *testing.T) {
	rule := func(id string, groups ...string) Rule {
		return Rule{ID: id, Phase: State, Verb: "remove", Why: "x", Paths: []string{"/var/lib/x/*"}, Groups: groups}
	}
	more := []Rule{{ID: "apt-caches", Phase: Caches, Groups: []string{"packages"}}}
	for name, c := range map[string]struct {
		own []Rule
		err string
	}{
		"an empty group": {[]Rule{rule("x", "")},
			`own rule "x": groups: "" must consist of small letters, digits and hyphens`},
		"a group with a space": {[]Rule{rule("x", "a b")},
			`own rule "x": groups: "a b" must consist of small letters, digits and hyphens`},
		"a group with a comma": {[]Rule{rule("x", "a,b")},
			`own rule "x": groups: "a,b" must consist of small letters, digits and hyphens`},
		"a rule as a group": {[]Rule{rule("x", "machine-id")},
			`own rule "x": groups: "machine-id" is a rule of eksnode; choose another name`},
		"its own ID as a group": {[]Rule{rule("x", "x")},
			`own rule "x": groups: "x" is the ID of a rule in the file; choose another name`},
		"another's ID": {[]Rule{rule("x", "y"), rule("y")},
			`own rule "x": groups: "y" is the ID of a rule in the file; choose another name`},
		"a group twice": {[]Rule{rule("x", "a", "a")}, `own rule "x": groups: "a" is listed twice`},
		"a distribution's rule": {[]Rule{rule("apt-caches")},
			`own rule "apt-caches": id: "apt-caches" is a rule or group of eksnode; choose another`},
		"a distribution's rule as a group": {[]Rule{rule("x", "apt-caches")},
			`own rule "x": groups: "apt-caches" is a rule of eksnode; choose another name`},
		"an ID twice":      {[]Rule{rule("x"), rule("x")}, `own rule "x": id: "x" is used twice`},
		"a built-in group": {[]Rule{rule("x", "kubelet", "agents")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Spec{Own: c.own}.Items(ToScrub, more)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.err)
		})
	}
}

// Host keys stay, with a finding, where cloud-init is off and nothing else makes
// keys.
func TestHostKeysStayWhereCloudInitIsOff(t *testing.T) {
	var all struct {
		Machine map[string]string
		Cases   map[string]struct {
			Files map[string]string
			Why   string
		}
	}
	decode("testdata/hostkeys.yaml", &all)
	fillIn(all.Machine)
	for name, c := range all.Cases {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(all.Machine)
			maps.Copy(files, c.Files)
			maps.DeleteFunc(files, func(n, text string) bool { return text == "" && strings.HasSuffix(n, ".service") })
			h, root := tree(t, files)
			outcomes := apply(t, h, Spec{Only: []string{"ssh-host-keys"}})
			_, there := snapshot(t, root)["/etc/ssh/ssh_host_rsa_key"]
			if c.Why == "" {
				assert.False(t, there)
				assert.Empty(t, outcomes[0].Findings)
				return
			}
			assert.True(t, there)
			require.Len(t, outcomes[0].Findings, 1)
			assert.Equal(t, fmt.Sprintf("no unit on this machine creates SSH host keys at boot (searched for %s; cloud-init "+
				"creates none: %s), so the keys stay: let cloud-init run, or skip the rule to accept shared keys",
				hostKeyMakers, c.Why), outcomes[0].Findings[0].Reason)
		})
	}
}

// Rules of a program must be complete and have names of their own.
func TestExtendChecksRules(t *testing.T) {
	whole := Rule{ID: "x", Phase: State, Why: "x", Look: func(*Draft) {}}
	for name, c := range map[string]struct {
		spoil func(*Rule)
		want  string
	}{
		"whole":               {func(*Rule) {}, ""},
		"paths":               {func(r *Rule) { r.Look, r.Paths, r.Verb = nil, []string{"/opt/x"}, plan.Remove }, ""},
		"a known ID":          {func(r *Rule) { r.ID = "machine-id" }, `own rule "machine-id": id: "machine-id" is a rule or group of eksnode; choose another`},
		"a distribution's ID": {func(r *Rule) { r.ID = "apt-caches" }, `is a rule or group of eksnode`},
		"a rule as a group":   {func(r *Rule) { r.Groups = []string{"machine-id"} }, `is a rule of eksnode; choose another name`},
		"no ID":               {func(r *Rule) { r.ID = "" }, `id: "" must consist of small letters`},
		"no phase":            {func(r *Rule) { r.Phase = "" }, `phase: "" is none of quiesce, unmount, state, `},
		"no reason":           {func(r *Rule) { r.Why = "" }, "why: missing"},
		"nothing to do":       {func(r *Rule) { r.Look = nil }, "paths: there are none"},
		"both":                {func(r *Rule) { r.Paths, r.Verb = []string{"/opt/**", "~/x*"}, plan.Remove }, ""},
		"both, wrong":         {func(r *Rule) { r.Paths = []string{"opt/x"} }, `paths: "opt/x" must be absolute`},
		"removal in an audit": {func(r *Rule) {
			r.Look, r.Phase, r.Paths, r.Verb = nil, Inspect, []string{"/opt/x"}, plan.Remove
		}, `phase: "inspect" is none of state, identity, caches and logs, access`},
		"a relative path": {func(r *Rule) { r.Look, r.Paths, r.Verb = nil, []string{"opt/x"}, plan.Remove }, `paths: "opt/x"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := whole
			c.spoil(&r)
			more, err := Extend([]Rule{{ID: "apt-caches", Phase: Caches}}, []Rule{r})
			if c.want == "" {
				require.NoError(t, err)
				assert.Len(t, more, 2)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := Extend(nil, []Rule{whole, whole})
	require.ErrorContains(t, err, "is used twice")
}

// A function cannot remove what the machine needs, as the paths of a rule file cannot.
func TestFunctionsOfOwnRulesAreJudged(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"/etc/passwd": passwd, "/etc/shadow": "root:*:1::::::\n"})
	more, err := Extend(nil, []Rule{{ID: "x", Phase: State, Why: "x", Paths: []string{"/etc/shadow"},
		Look: func(d *Draft) { d.Remove(d.Paths[0], "x") }}})
	require.NoError(t, err)
	_, err = selected(t, Spec{Only: []string{"x"}}, ToScrub, more...)[0].Plan(t.Context(), h)
	require.ErrorContains(t, err, "/etc/shadow")
}

// A dry run without an audit asks no rule that only reports.
func TestADryRunWithoutAnAuditReportsNothing(t *testing.T) {
	assert.NotContains(t, show.Each(selected(t, Spec{Audit: AuditOff}, ToPlan), plan.Item.Phase), string(Inspect))
}

// The checks of an audit have every rule once: as it ended, left out, or with nothing to find.
func TestChecksHaveEveryRule(t *testing.T) {
	asked := []plan.Check{{Item: "secrets-left", Outcome: plan.Found}, {Item: "machine-id", Outcome: plan.Passed}}
	got := map[string]plan.Verdict{}
	checks := Spec{Skip: []string{"kubelet-pki"}}.Checks(nil, asked)
	for _, c := range checks {
		got[c.Item] = c.Outcome
	}
	assert.Len(t, got, len(checks))
	assert.Len(t, got, len(Table()))
	for id, want := range map[string]plan.Verdict{"secrets-left": plan.Found, "machine-id": plan.Passed,
		"kubelet-pki": plan.LeftOut, "kubelet-mounts": plan.NotApplicable} {
		assert.Equal(t, want, got[id], id)
	}
}
