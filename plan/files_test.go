//go:build linux

package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func settled(t *testing.T, actions []Action) []string {
	t.Helper()
	var done []string
	for _, a := range actions {
		done = append(done, string(a.Verb)+" "+a.Target+" ("+a.Reason+")")
		require.NoError(t, a.Do(t.Context(), nil))
	}
	return done
}

// A file gets its content and mode, and replaces any file or link. A second plan is
// empty.
func TestFilesGetContentAndMode(t *testing.T) {
	const write = "write /etc/a/b (tests need it)"
	want := File{Path: "/etc/a/b", Content: []byte("new\n"), Mode: 0o640, Why: "tests need it"}
	for name, c := range map[string]struct {
		before func(t *testing.T, root, file string) error
		done   []string
	}{
		"already right": {func(_ *testing.T, _, file string) error { return os.WriteFile(file, want.Content, 0o640) }, nil},
		"nothing":       {func(*testing.T, string, string) error { return nil }, []string{write}},
		"other content": {func(_ *testing.T, _, file string) error { return os.WriteFile(file, []byte("old\n"), 0o640) }, []string{write}},
		"another mode":  {func(_ *testing.T, _, file string) error { return os.WriteFile(file, want.Content, 0o600) }, []string{write}},
		"a link": {func(t *testing.T, root, file string) error {
			require.NoError(t, os.WriteFile(filepath.Join(root, "other"), want.Content, 0o640))
			return os.Symlink("/other", file)
		}, []string{write}},
		"a masked unit's link": {func(_ *testing.T, _, file string) error { return os.Symlink("/dev/null", file) }, []string{write}},
		"an interrupted write": {func(t *testing.T, _, file string) error {
			require.NoError(t, os.WriteFile(file, want.Content, 0o640))
			return os.WriteFile(filepath.Join(filepath.Dir(file), ".b.eksnode-0123456789abcdef"), nil, 0o600)
		}, []string{"remove /etc/a/.b.eksnode-0123456789abcdef (an interrupted run left it)"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Root(t, map[string]string{"etc/a/": ""})
			file := filepath.Join(h.Root(), want.Path)
			require.NoError(t, c.before(t, h.Root(), file))
			actions, err := Files(h, []File{want})
			require.NoError(t, err)
			assert.Equal(t, c.done, settled(t, actions))
			again, err := Files(h, []File{want})
			require.NoError(t, err)
			assert.Empty(t, again)
			st, err := os.Lstat(file)
			require.NoError(t, err)
			assert.Equal(t, os.FileMode(0o640), st.Mode(), "the path must be a regular file with this mode")
			assert.Equal(t, "new\n", testkit.Content(t, file))
		})
	}
}

// A link replaces a file or another link, but no folder.
func TestLinksReplaceFilesButNotFolders(t *testing.T) {
	want := SymbolicLink{Path: "/etc/a/l", To: "/dev/null", Why: "tests need it"}
	const link = "link /etc/a/l to /dev/null (tests need it)"
	for name, c := range map[string]struct {
		before map[string]string
		done   []string
		fails  string
	}{
		"already right": {map[string]string{"etc/a/l": "-> /dev/null"}, nil, ""},
		"nothing":       {nil, []string{link}, ""},
		"another link":  {map[string]string{"etc/a/l": "-> x"}, []string{link}, ""},
		"a file":        {map[string]string{"etc/a/l": "x"}, []string{link}, ""},
		"a folder":      {map[string]string{"etc/a/l/": ""}, nil, "linking /etc/a/l: something else is there; remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Root(t, c.before)
			actions, err := Links(h, []SymbolicLink{want})
			if c.fails != "" {
				require.EqualError(t, err, c.fails)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.done, settled(t, actions))
			to, err := os.Readlink(filepath.Join(h.Root(), want.Path))
			require.NoError(t, err)
			assert.Equal(t, want.To, to)
		})
	}
}

// Absent removes files, links, and folders with their content.
func TestAbsentRemovesFilesAndFolders(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"a/b/": "", "l": "-> nowhere"})
	actions, err := Absent(h, "old", "/a", "/l", "/gone")
	require.NoError(t, err)
	assert.Equal(t, []string{"remove /a (old)", "remove /l (old)"}, settled(t, actions))
	actions, err = Absent(h, "old", "/a", "/l", "/gone")
	require.NoError(t, err)
	assert.Empty(t, actions)
}

// kept reads a report file.
func kept(t *testing.T, path string) Report {
	t.Helper()
	return testkit.JSON[Report](t, testkit.Content(t, path))
}

func begunBy(build string) Report {
	r := Begun("scrub", "1.2.3", "/", time.Unix(0, 0).UTC())
	r.Build = build
	return r
}

func TestAClaimedReportIsUnfinishedUntilWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "report.json")
	testkit.Write(t, path, `{"result":"ok"}`)
	f, err := ClaimReport(path, begunBy("a"), nil)
	require.NoError(t, err)
	r := kept(t, path)
	assert.Equal(t, Unfinished, r.Result)
	assert.Equal(t, 1, r.Result.ExitCode())
	assert.Equal(t, "the run has not ended, or was interrupted", r.Error)
	require.NoError(t, f.Write(Report{Result: OK}))
	assert.Equal(t, OK, kept(t, path).Result)
	assert.Len(t, testkit.Names(t, filepath.Dir(path)), 1)
	require.NoError(t, f.Write(Report{Result: OK, Image: &Contents{Tailoring: "<x/>"}}))
	require.NoError(t, f.Close())
	assert.Equal(t, "<x/>", testkit.Content(t, filepath.Join(filepath.Dir(path), "report.tailoring.xml")))
}

// A second run is refused until the first run closes the file, also after the
// first run's report is written.
func TestTwoRunsCannotShareAReportFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	f, err := ClaimReport(path, begunBy("null.a"), nil)
	require.NoError(t, err)
	refused := func() {
		_, err := ClaimReport(path, begunBy("null.b"), nil)
		require.EqualError(t, err, path+" keeps the report of the scrub of the build null.a, which has not ended")
	}
	refused()
	done := begunBy("null.a")
	done.Result = OK
	require.NoError(t, f.Write(done))
	refused()
	assert.Equal(t, OK, kept(t, path).Result)
	require.NoError(t, f.Close())
	f, err = ClaimReport(path, begunBy("null.b"), nil)
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
		_, err := ClaimReport(path, begunBy("a"), nil)
		require.EqualError(t, err, want)
	}
}

func TestReportsFollowALink(t *testing.T) {
	folder := t.TempDir()
	link, file := filepath.Join(folder, "link"), filepath.Join(folder, "file")
	require.NoError(t, os.Symlink(file, link))
	for range 2 { // the file is missing at first
		f, err := ClaimReport(link, begunBy("a"), nil)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		assert.Equal(t, Unfinished, kept(t, file).Result)
		st, err := os.Lstat(link)
		require.NoError(t, err)
		assert.NotZero(t, st.Mode()&os.ModeSymlink)
	}
}

func TestABoundedReportLeavesItsOriginAlone(t *testing.T) {
	long := strings.Repeat("x", textMost+1)
	audit := &Audit{Error: long, Rules: []Check{{Reason: long}, {}, {}}}
	all := Report{
		Started: time.Unix(1, 0), Omitted: 1, Audit: audit, Image: &Contents{Tailoring: long, Packages: make([]Package, 9)},
		Outcomes: []Outcome{{Actions: []Action{{Files: make([]FileHash, 5)}}}},
	}
	few := all.Bounded(2)
	assert.Equal(t, 1+1+7+3, few.Omitted)
	assert.Equal(t, long[1:]+" …", few.Audit.Error)
	assert.Equal(t, long[1:]+" …", few.Audit.Rules[0].Reason)
	assert.Equal(t, long, few.Image.Tailoring, "only errors and reasons are short")
	assert.Equal(t, all.Started, few.Started)
	assert.Len(t, audit.Rules, 3)
	assert.Equal(t, long, audit.Rules[0].Reason)
	assert.Len(t, all.Outcomes[0].Actions[0].Files, 5)
}
