//go:build linux

package scrub

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Rules of a program must be complete and have names of their own.
func TestExtendChecksRules(t *testing.T) {
	find := func(context.Context, *host.Host) (plan.Answer, error) { return plan.Answer{}, nil }
	whole := Rule{ID: "x", Phase: State, Why: "x", Find: find}
	for name, c := range map[string]struct {
		spoil func(*Rule)
		want  string
	}{
		"whole":               {func(*Rule) {}, ""},
		"paths":               {func(r *Rule) { r.Find, r.Paths, r.Verb = nil, []string{"/opt/x"}, plan.Remove }, ""},
		"a known ID":          {func(r *Rule) { r.ID = "machine-id" }, `own rule "machine-id": id: "machine-id" is another rule or group; choose another`},
		"a distribution's ID": {func(r *Rule) { r.ID = "apt-caches" }, `is another rule or group`},
		"no ID":               {func(r *Rule) { r.ID = "" }, `name: "" must consist of small letters`},
		"no phase":            {func(r *Rule) { r.Phase = "" }, `phase: "" is not known`},
		"no reason":           {func(r *Rule) { r.Why = "" }, "why: missing"},
		"nothing to do":       {func(r *Rule) { r.Find = nil }, "find: missing"},
		"both":                {func(r *Rule) { r.Paths, r.Verb = []string{"/opt/x"}, plan.Remove }, "paths: they have no effect with Find"},
		"removal in an audit": {func(r *Rule) { r.Find, r.Phase, r.Paths, r.Verb = nil, Inspect, []string{"/opt/x"}, plan.Remove }, "find: missing"},
		"a relative path":     {func(r *Rule) { r.Find, r.Paths, r.Verb = nil, []string{"opt/x"}, plan.Remove }, `paths: "opt/x"`},
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
	require.ErrorContains(t, err, "choose another")
}

// A function cannot remove what the machine needs, as the paths of a rule file cannot.
func TestFunctionsOfOwnRulesAreJudged(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"/etc/passwd": passwd, "/etc/shadow": "root:*:1::::::\n"})
	more, err := Extend(nil, []Rule{{ID: "x", Phase: State, Why: "x", Find: func(context.Context, *host.Host) (plan.Answer, error) {
		return plan.Acts(plan.Action{Verb: plan.Remove, Target: "/etc/shadow", Take: func(context.Context) (host.Removal, error) { return h.Files.RemoveTree("/etc/shadow") }}), nil
	}}})
	require.NoError(t, err)
	items, err := Spec{Only: []string{"x"}}.Items(more)
	require.NoError(t, err)
	_, err = items[0].Plan(t.Context(), h)
	require.ErrorContains(t, err, "/etc/shadow")
}
