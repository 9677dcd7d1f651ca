package snapshot

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var wanted = head{Source: "/disk, 5 bytes", Region: "eu-west-1", Settings: "size 1 GiB"}

// begun makes a journal with a block.
func begun(t *testing.T, path string) {
	t.Helper()
	j, found, err := openJournal(path, wanted)
	require.NoError(t, err)
	require.Nil(t, found)
	require.NoError(t, j.begin(time.Now()))
	require.NoError(t, j.began("snap-1"))
	require.NoError(t, j.add(7, Sum{1}))
	require.NoError(t, j.close(false))
}

func TestAJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	begun(t, path)
	whole := []byte(testkit.Content(t, path))
	head := bytes.IndexByte(whole, '\n') + 1
	// A process may end after each byte.
	for size := range len(whole) + 1 {
		require.NoError(t, os.WriteFile(path, whole[:size], 0o600))
		j, found, err := openJournal(path, wanted)
		require.NoError(t, err, size)
		require.Equal(t, size >= head, found != nil, size)
		_, has := j.before(7)
		require.Equal(t, size == len(whole), has, size)
		if found != nil {
			require.NoError(t, j.add(8, Sum{2}))
			require.NoError(t, j.close(false))
			j, _, err = openJournal(path, wanted)
			require.NoError(t, err)
			require.Equal(t, j.head.Token, found.Token)
			sum, has := j.before(8)
			require.True(t, has && sum == Sum{2}, size)
		}
		require.NoError(t, j.close(false))
	}
	other := wanted
	other.Source = "/other"
	j, found, err := openJournal(path, other)
	require.NoError(t, err)
	require.Equal(t, "snap-1", found.id)
	require.Empty(t, j.head.Token, "another disk")
	require.NoError(t, j.close(false))
}

func TestOtherFilesAreNoJournals(t *testing.T) {
	const foreign = "line 1: the file is not a journal of eksnode; move the file away"
	for text, says := range map[string]string{
		"hello\n": foreign, "x": foreign, strings.Repeat("x", 1<<20): foreign, "\x00\x00\n": foreign, "{}\n": foreign,
		journalHead + "{}\n": foreign, journalHead + "{\"token\":1}\n": foreign, journalHead + strings.Repeat("y", 1<<17): foreign,
		"eksnode-journal 2 {}\n": "line 1: a later version of eksnode wrote the journal; use that version, or remove the file",
	} {
		path := filepath.Join(t.TempDir(), "journal")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, _, err := openJournal(path, wanted)
		require.EqualError(t, err, "reading the journal "+path+": "+says, "%.50q", text)
		left := testkit.Content(t, path)
		require.True(t, text == left, "the file stays as it was")
	}
	folder := t.TempDir()
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(folder, "link")))
	_, _, err := openJournal(filepath.Join(folder, "link"), wanted)
	require.ErrorContains(t, err, "opening the journal: open "+folder)
	_, _, err = openJournal(folder, wanted)
	require.ErrorContains(t, err, "opening the journal: open "+folder)
}

func FuzzJournal(f *testing.F) {
	sum := base64.StdEncoding.EncodeToString(make([]byte, 32))
	f.Add([]byte(journalHead + `{"source":"s","region":"r","settings":"","token":"t","started":"2026-01-02T03:04:05Z"}` + "\nsnapshot snap-1\n5 " + sum + "\n7 " + sum))
	f.Add([]byte("eksnode-journal 2\n"))
	f.Add([]byte("\x00"))
	f.Add([]byte(journalHead + "{\"token\":\"t\"}\n" + strings.Repeat("x", 1<<17) + "\n-1 " + sum + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, done, err := readJournal(bytes.NewReader(text))
		if err != nil {
			require.Nil(t, h)
			return
		}
		require.True(t, h == nil || h.Token != "")
		for index := range done {
			require.GreaterOrEqual(t, index, int32(0))
			require.Contains(t, string(text), fmt.Sprint(index))
		}
	})
}

func FuzzSums(f *testing.F) {
	sum := base64.StdEncoding.EncodeToString(make([]byte, 32))
	f.Add([]byte(sumsHead + " snap-1\n5 " + sum + "\n"))
	f.Add([]byte(sumsHead + " snap-1\n5 " + sum + "\n5 " + sum + "\n"))
	f.Add([]byte(sumsHead + " snap-2\n"))
	f.Add([]byte(sumsHead + " snap-1\n" + strings.Repeat("x", 1<<17)))
	f.Fuzz(func(t *testing.T, text []byte) {
		sums, err := readSums(bytes.NewReader(text), "snap-1")
		if err != nil {
			require.Nil(t, sums)
			return
		}
		require.Len(t, sums, strings.Count(strings.TrimSuffix(string(text), "\n"), "\n"), "a block for each line")
		// The same sums, saved again, are read again.
		path := filepath.Join(t.TempDir(), "sums")
		require.NoError(t, sums.Save(path, "snap-1", "sha256:ab"))
		again, err := LoadSums(path, "snap-1")
		require.NoError(t, err)
		require.Equal(t, sums, again)
	})
}
