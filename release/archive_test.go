package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestArchivesHoldTheProgramAndTheLicence(t *testing.T) {
	r := one(t)
	program := filepath.Join(t.TempDir(), "built")
	require.NoError(t, os.WriteFile(program, []byte("a program"), 0o600))
	for name, read := range map[string]func(string, string) (packed, error){"a.zip": readZip, "a.tar.gz": readTarGz} {
		t.Run(name, func(t *testing.T) {
			archive := filepath.Join(t.TempDir(), name)
			require.NoError(t, r.pack(archive, "named", program))
			file, err := read(archive, "named")
			require.NoError(t, err)
			assert.Equal(t, "a program", string(file.content))
			assert.Equal(t, os.FileMode(0o755), file.mode.Perm())
			licence, err := read(archive, "LICENSE")
			require.NoError(t, err)
			assert.Equal(t, "the licence", string(licence.content))
			_, err = read(archive, "other")
			require.EqualError(t, err, "it holds no file other")
		})
	}
}

func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	r := one(t)
	program := filepath.Join(t.TempDir(), "built")
	require.NoError(t, os.WriteFile(program, []byte("a program"), 0o644))
	for _, name := range []string{"a.zip", "a.tar.gz"} {
		t.Run(name, func(t *testing.T) {
			first, second := filepath.Join(t.TempDir(), name), filepath.Join(t.TempDir(), name)
			require.NoError(t, r.pack(first, "named", program))
			require.NoError(t, os.Chtimes(program, time.Now(), time.Unix(1, 0)))
			require.NoError(t, r.pack(second, "named", program))
			a, err := sumOf(first)
			require.NoError(t, err)
			b, err := sumOf(second)
			require.NoError(t, err)
			assert.Equal(t, a, b)
		})
	}
}
