//go:build e2e && full

package join_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// exceptionsFile says what does not pass of the checks of others, and why;
// docs/reference/checks-of-others.md is made of it.
const exceptionsFile = "../../docs/generate/exceptions.json"

// exception is a check of another project that does not pass.
type exception struct {
	Check string
	// Name is the check's name or number, or a common part of several names with
	// one reason.
	Name, Why string
}

// exceptions are the exceptions to one program's checks.
type exceptions struct {
	w    *world
	all  []exception
	used map[string]bool
}

func (w *world) exceptions(check string) *exceptions {
	w.t.Helper()
	text, err := os.ReadFile(exceptionsFile)
	require.NoError(w.t, err)
	var all []exception
	require.NoError(w.t, json.Unmarshal(text, &all))
	all = slices.DeleteFunc(all, func(e exception) bool { return e.Check != check })
	return &exceptions{w, all, map[string]bool{}}
}

// names returns the names of all exceptions.
func (e *exceptions) names() []string {
	var names []string
	for _, one := range e.all {
		names = append(names, one.Name)
	}
	return names
}

// allow fails the test when a failing check is no exception.
func (e *exceptions) allow(name, why string) {
	e.w.t.Helper()
	known := false
	for _, one := range e.all {
		if strings.Contains(name, one.Name) {
			known, e.used[one.Name] = true, true
		}
	}
	assert.True(e.w.t, known, "%s: %s", name, why)
}

// close fails the test when a check with an exception passes.
func (e *exceptions) close() {
	e.w.t.Helper()
	for _, one := range e.all {
		assert.True(e.w.t, e.used[one.Name], "%s passes: remove its exception from %s", one.Name, exceptionsFile)
	}
}
