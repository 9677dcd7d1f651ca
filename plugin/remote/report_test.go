package remote

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func TestWriteReportReplacesAnEarlierOne(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(folder, "report.json")
	for _, result := range []plan.Result{plan.Failure, plan.OK} {
		require.NoError(t, writeReport(path, &plan.Report{Schema: plan.Schema, Result: result}))
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Contains(t, string(data), `"result": "`+string(result)+`"`)
		assert.Equal(t, byte('\n'), data[len(data)-1])
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file stays")
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), st.Mode().Perm())
}

func TestWriteReportWhereAFolderIs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	require.NoError(t, os.Mkdir(path, 0o755))
	err := writeReport(path, &plan.Report{})
	require.ErrorContains(t, err, "writing the report "+path+": rename ")
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file stays")
}
