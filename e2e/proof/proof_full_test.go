//go:build e2e && full && linux

package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same with fifty moments.
func TestFiftyKilledProofsLeaveNothing(t *testing.T) { killed(t, 50) }

// Each action of the policy is removed once, with UNCHECKED=1. The run fails and names the
// action. It runs the first step that needs the action, or all steps for a deletion.
func TestThePolicyIsLeast(t *testing.T) {
	w := double(t)
	before := all(w)
	o := testOptions(t)
	o.unchecked = true
	actions := func(of []step) []string {
		text, err := policy(o.eksnode, of)
		require.NoError(t, err)
		var document struct{ Statement []statement }
		require.NoError(t, json.Unmarshal([]byte(text), &document))
		return document.Statement[0].Action
	}
	always := actions(nil)
	for _, action := range actions(steps) {
		if unseen.MatchString(action) || action == "iam:SimulatePrincipalPolicy" {
			continue
		}
		_, operation, _ := strings.Cut(action, ":")
		i := slices.IndexFunc(steps, func(s step) bool {
			return !slices.Contains(always, action) && slices.Contains(actions([]step{s}), action)
		})
		switch {
		case i >= 0:
			o.only = steps[i].Name
		case strings.HasPrefix(operation, "List") || strings.HasPrefix(operation, "Describe") ||
			strings.HasPrefix(operation, "Get"):
			o.only = "network"
		default:
			o.only = ""
		}
		o.folder = t.TempDir()
		w.Deny(action)
		_, _, err := o.proven(t.Context(), t)
		assert.ErrorContains(t, err, operation, "without %s, by the step %q", action, o.only)
		w.Heal()
		cleaned := o
		cleaned.clean = true
		require.NoError(t, cleaned.main(t.Context(), nil, io.Discard))
		assert.Equal(t, before, all(w), action)
		t.Logf("%s: %s", action, o.only)
	}
}
