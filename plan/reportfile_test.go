//go:build linux

package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// kept reads a report file.
func kept(t *testing.T, path string) Report {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var r Report
	require.NoError(t, json.Unmarshal(text, &r))
	return r
}

func begunBy(build string) Report {
	r := Begun("scrub", "1.2.3", "/", time.Unix(0, 0).UTC())
	r.Build = build
	return r
}

func TestAClaimedReportIsUnfinishedUntilWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "report.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(`{"result":"ok"}`), 0o600))
	f, err := ClaimReport(path, begunBy("a"))
	require.NoError(t, err)
	r := kept(t, path)
	assert.Equal(t, Unfinished, r.Result)
	assert.Equal(t, 1, r.Result.ExitCode())
	assert.Equal(t, "the run has not ended, or was interrupted", r.Error)
	require.NoError(t, f.Write(Report{Result: OK}))
	assert.Equal(t, OK, kept(t, path).Result)
	require.NoError(t, f.Close())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

// A second run is refused until the first run closes the file, also after the
// first run's report is written.
func TestTwoRunsCannotShareAReportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	f, err := ClaimReport(path, begunBy("null.a"))
	require.NoError(t, err)
	refused := func() {
		_, err := ClaimReport(path, begunBy("null.b"))
		require.EqualError(t, err, path+" keeps the report of the scrub of the build null.a, which has not ended")
	}
	refused()
	done := begunBy("null.a")
	done.Result = OK
	require.NoError(t, f.Write(done))
	refused()
	assert.Equal(t, OK, kept(t, path).Result)
	require.NoError(t, f.Close())
	f, err = ClaimReport(path, begunBy("null.b"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func TestUnsuitableReportPathsAreRefused(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		folder:                             folder + " is a folder; name a file in the folder, such as " + folder + "/report.json",
		"/dev/null":                        "/dev/null is not a regular file, which a report would replace",
		filepath.Join(file, "report.json"): "mkdir " + file + ": not a directory",
		"/proc/report.json":                "open /proc/report.json: no such file or directory",
	} {
		_, err := ClaimReport(path, begunBy("a"))
		require.EqualError(t, err, want)
	}
}

func TestReportsFollowALink(t *testing.T) {
	folder := t.TempDir()
	link, file := filepath.Join(folder, "link"), filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(file, link))
	f, err := ClaimReport(link, begunBy("a"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	assert.Equal(t, Unfinished, kept(t, file).Result)
	st, err := os.Lstat(link)
	require.NoError(t, err)
	assert.NotZero(t, st.Mode()&os.ModeSymlink)
}
