package diagnose

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// nodeJournal is a journal file of two boots: in the first one, swap is on, and in
// the second one the API server refuses the node, in an unprintable message.
func nodeJournal(t *testing.T) string {
	t.Helper()
	return file(t, "node.journal", testkit.Expanded(t, "testdata/node.journal.xz"))
}

// The machine's own journalctl writes each form.
func TestEveryOutputOfJournalctlIsRead(t *testing.T) {
	journal := nodeJournal(t)
	for _, form := range []string{"short", "short-precise", "short-iso", "short-full", "with-unit", "verbose", "cat", "json", "json-pretty", "json-sse", "json-seq", "export"} {
		out, err := exec.CommandContext(t.Context(), "journalctl", "--no-pager", "--all", "--output="+form, "--file="+journal).Output()
		require.NoError(t, err)
		s := NewSearch(t.Context())
		require.NoError(t, s.Input("x", bytes.NewReader(out)))
		var found []string
		for _, f := range s.Report().Findings {
			found = append(found, f.Rule.ID)
		}
		if form == "json-pretty" || form == "cat" { // nothing is between the boots
			assert.Equal(t, []string{"swap", "unauthorized"}, found, form)
		} else {
			assert.Equal(t, []string{"unauthorized"}, found, form)
		}
	}
}

// reader reads journal files with the machine's own journalctl.
func reader(t *testing.T) Journal {
	return func(files ...string) io.Reader {
		argv := []string{"--no-pager", "--all", "--output=short-precise"}
		for _, f := range files {
			argv = append(argv, "--file="+f)
		}
		out, err := exec.CommandContext(t.Context(), "journalctl", argv...).Output()
		require.NoError(t, err)
		return bytes.NewReader(out)
	}
}

// A journal file is read as it is, compressed, in an archive, in a folder and from a
// stream.
func TestJournalFilesAreRead(t *testing.T) {
	journal := nodeJournal(t)
	raw, err := os.ReadFile(journal)
	require.NoError(t, err)
	check := func(s *Search, at string) {
		t.Helper()
		r := s.Report()
		require.Len(t, r.Findings, 1)
		assert.Equal(t, "unauthorized", r.Findings[0].Rule.ID)
		assert.Contains(t, r.Findings[0].Evidence[0], at)
	}
	packed := file(t, "node.journal.gz", gzipped(t, string(raw)))
	archive := file(t, "logs.tar.gz", gzipped(t, tarred(t, "var/log/journal/a/system.journal", string(raw))))
	for name, at := range map[string]string{
		journal: journal + ":", packed: packed + ":", archive: archive + ":var/log/journal/a/system.journal:", strings.TrimSuffix(journal, "/node.journal"): journal + ":",
	} {
		s := NewSearch(t.Context()).WithJournal(reader(t))
		require.NoError(t, s.File(name))
		check(s, at)
	}
	folder := t.TempDir()
	for _, name := range []string{"system.journal", "system@1.journal~"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), raw, 0o600))
	}
	both := NewSearch(t.Context()).WithJournal(reader(t))
	require.NoError(t, both.File(folder))
	check(both, folder+"/*.journal:")

	s := NewSearch(t.Context()).WithJournal(reader(t))
	require.NoError(t, s.Input("standard input", bytes.NewReader(raw)))
	check(s, "standard input:")
}
