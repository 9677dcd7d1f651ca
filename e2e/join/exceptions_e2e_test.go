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

// exception is one check of others that does not pass.
type exception struct {
	Check string
	// Name is the check's name or number; a part of it, where several fail for
	// one reason.
	Name, Why string
}

// exceptions are those to the checks of one program.
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

// names are those of all of them.
func (e *exceptions) names() []string {
	var names []string
	for _, one := range e.all {
		names = append(names, one.Name)
	}
	return names
}

// allow fails the test where what does not pass is no exception.
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

// close fails the test where an exception is none any more.
func (e *exceptions) close() {
	e.w.t.Helper()
	for _, one := range e.all {
		assert.True(e.w.t, e.used[one.Name], "%s passes: take it out of %s", one.Name, exceptionsFile)
	}
}
