package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheCommittedSchemaIsWhatTheReportSays(t *testing.T) {
	want, err := reportSchema(root)
	require.NoError(t, err)
	have, err := os.ReadFile(filepath.Join(root, schemaFile))
	require.NoError(t, err, "run `make generate`")
	assert.Empty(t, difference(string(want), string(have)), "%s has drifted from the code; run `make generate`", schemaFile)
}
