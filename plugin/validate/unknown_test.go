package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestUnknown(t *testing.T) {
	assert.True(t, IsUnknown("<unknown>"))
	assert.True(t, IsUnknown("/home/<unknown>"))
	assert.False(t, IsUnknown(""))
	assert.Equal(t, "", Known("<unknown>"))
	assert.Equal(t, "x", Known("x"))

	list := []string{"a", "<unknown>", "b"}
	assert.Equal(t, []string{"a", "b"}, KnownOf(list))
	assert.Equal(t, []string{"a", "<unknown>", "b"}, list, "the caller's list stays")
	assert.Empty(t, KnownOf(nil))

	values := map[string]string{"a": "1", "b": "<unknown>"}
	assert.Equal(t, map[string]string{"a": "1"}, KnownIn(values))
	assert.Len(t, values, 2, "the caller's map stays")
	assert.Empty(t, KnownIn(nil))
}
