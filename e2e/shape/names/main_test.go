package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

func TestEveryShapeIsListedOnOneLine(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, list(&out))
	assert.Equal(t, 1, strings.Count(out.String(), "\n"), "GITHUB_OUTPUT takes one line")
	var names []string
	require.NoError(t, json.Unmarshal(out.Bytes(), &names))
	assert.True(t, slices.IsSorted(names))
	assert.Len(t, names, len(shape.All()))
	for _, name := range names {
		assert.Contains(t, shape.All(), name)
	}
}
