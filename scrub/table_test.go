package scrub

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryRuleHasAllFields(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Table() {
		t.Run(r.ID, func(t *testing.T) {
			assert.False(t, seen[r.ID], "the ID is used twice")
			seen[r.ID] = true
			assert.Contains(t, append(slices.Clone(Phases), Inspect), r.Phase)
			for field, value := range map[string]string{
				"owner": r.Owner, "why": r.Why, "regenerated": r.Regenerated, "source": r.Source, "verb": string(r.Verb),
			} {
				assert.NotEmpty(t, value, field)
			}
			assert.NotEmpty(t, r.Groups)
			assert.True(t, r.Find != nil || r.search != nil || len(r.Paths) > 0, "the rule has no paths, Find or Search")
			for _, p := range r.Paths {
				assert.True(t, path.IsAbs(p) || strings.HasPrefix(p, "~/"), p)
				_, err := path.Match(p, "")
				assert.NoError(t, err, p)
			}
		})
	}
}

func TestAuthorizedKeysAreRemovedLast(t *testing.T) {
	items, err := Spec{}.Items(nil)
	require.NoError(t, err)
	assert.Equal(t, "kubelet-running", items[0].ID())
	assert.Equal(t, "authorized-keys", items[len(items)-1].ID())
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
			items, err := c.spec.Items(nil)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, c.spec.Validate(nil), c.err)
				return
			}
			require.NoError(t, err)
			var ids []string
			for _, i := range items {
				ids = append(ids, i.ID())
			}
			assert.Equal(t, c.want, ids)
		})
	}
}
