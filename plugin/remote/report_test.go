//go:build linux

package remote

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// An interrupted Packer kills its plugins. So the report file must say "unfinished"
// while the agent runs.
func TestReportsAreUnfinishedWhileTheAgentRuns(t *testing.T) {
	b := newBench(t, "wait").overSSH()
	require.NoError(t, os.MkdirAll(filepath.Dir(b.report), 0o755))
	require.NoError(t, os.WriteFile(b.report, []byte(`{"result":"ok"}`), 0o600))
	over := make(chan error, 1)
	go func() { over <- b.session.Run(t.Context(), b.request) }()
	pid := b.pid()
	r := b.kept()
	assert.Equal(t, plan.Unfinished, r.Result)
	assert.Equal(t, "null.machine", r.Build)
	assert.Equal(t, "provision", r.Command)
	b.machine.Cut()
	require.Error(t, <-over)
	gone(t, pid)
	assert.Equal(t, plan.Failure, b.kept().Result)
	assert.Equal(t, "null.machine", b.kept().Build)
}

// Two provisioners must not share a report file, even one after the other.
func TestTwoProvisionersCannotShareAReport(t *testing.T) {
	first := newBench(t, "done").overSSH()
	require.NoError(t, first.session.Run(t.Context(), first.request))
	for _, build := range []string{"null.machine", "null.other"} { // renamed sources have the original's name
		second := newBench(t, "done").overSSH()
		second.session.Config.Report, second.session.Build = first.report, build
		require.EqualError(t, second.session.Run(t.Context(), second.request),
			"report: "+first.report+" keeps the report of the provision of the build null.machine, which has not ended; give each provisioner and each build a file of its own, such as "+filepath.Dir(first.report)+"/report-${source.name}.json")
		assert.Empty(t, second.machine.Asked())
	}
	assert.Equal(t, plan.OK, first.kept().Result)

	require.NoError(t, first.session.Run(t.Context(), first.request), "a retry of the same provisioner may write the report again")
	require.NoError(t, first.session.Kept.file.Close())
	third := newBench(t, "done").overSSH()
	third.session.Config.Report = first.report
	require.NoError(t, third.session.Run(t.Context(), third.request), "the file is free after the first process has ended")
}

func TestReportsAreReplacedAtomically(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "report.json")
	var k Kept
	begun := plan.Begun("scrub", "1", "/", time.Unix(0, 0))
	require.NoError(t, k.begin(path, begun))
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o755))
	require.NoError(t, k.write(plan.Report{Result: plan.OK}))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.True(t, json.Valid(data))
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no temporary file may stay")
	st, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o644), st.Mode().Perm())

	require.NoError(t, os.RemoveAll(filepath.Dir(path)))
	require.ErrorContains(t, k.write(plan.Report{}), "writing the report: open ")
}

func TestPrepareRefusesUnwritableReports(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	folder, readOnly := t.TempDir(), t.TempDir()
	require.NoError(t, unix.Mount("none", readOnly, "tmpfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(readOnly, 0)) })
	for path, want := range map[string]string{
		folder:                 "report: " + folder + " is a folder; name a file in it, such as " + folder + "/report.json",
		"/dev/null":            "report: /dev/null is not a regular file, which a report would replace",
		readOnly + "/a/x.json": "report: " + readOnly + "/a/x.json cannot be written: the folder " + readOnly + ": read-only file system",
		"~you/x":               "report: ~you/x begins with ~you: only ~/ is replaced by a home folder",
		"/dev/null/x.json":     "report: /dev/null is not a folder, so /dev/null/x.json cannot be written",
		"~/reports/ok.json":    "",
	} {
		c := Config{Report: path}
		err := c.Prepare()
		if want == "" {
			require.NoError(t, err)
			assert.Equal(t, filepath.Join(os.Getenv("HOME"), "reports/ok.json"), c.Report)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}
