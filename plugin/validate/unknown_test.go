package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUnknownValuesAreRecognized(t *testing.T) {
	assert.True(t, IsUnknown("<unknown>"))
	assert.True(t, IsUnknown("/home/<unknown>"))
	assert.False(t, IsUnknown(""))
	assert.Equal(t, "", Known("<unknown>"))
	assert.Equal(t, "x", Known("x"))

	list := []string{"a", "<unknown>", "b"}
	assert.Equal(t, []string{"a", "b"}, KnownOf(list))
	assert.Equal(t, []string{"a", "<unknown>", "b"}, list, "the caller's list must not change")
	assert.Empty(t, KnownOf(nil))

}

// KnownFields works by reflection, so new fields of a spec are covered.
func TestKnownFieldsRemovesUnknownValues(t *testing.T) {
	type named string
	type Inner struct {
		List []string
		Map  map[string]string
	}
	type spec struct {
		Inner
		Text, Part string
		Named      named
		Switch     bool
		Nothing    []string
		Pointer    *Inner
		hidden     string
	}
	later := spec{
		Inner: Inner{List: []string{"a", "<unknown>"}, Map: map[string]string{"a": "1", "b": "<unknown>"}},
		Text:  "<unknown>", Part: "/x/<unknown>", Named: "<unknown>", Switch: true, Pointer: &Inner{List: []string{"<unknown>"}}, hidden: "x",
	}
	known := KnownFields(later)
	assert.Equal(t, spec{Inner: Inner{List: []string{"a"}, Map: map[string]string{"a": "1"}}, Switch: true, Pointer: later.Pointer, hidden: "x"}, known)
	assert.Len(t, later.Map, 2, "the caller's map must not change")
	assert.Equal(t, []string{"a", "<unknown>"}, later.List, "the caller's list must not change")
	assert.Nil(t, known.Nothing, "a nil list must stay nil")
}
