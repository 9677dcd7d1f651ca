package tools

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestToolVersionIsChecked(t *testing.T) {
	for _, test := range []struct {
		name, script string
		wantErr      string
	}{
		{name: "right", script: "echo Packer v1.15.0"},
		{name: "right on standard error", script: "echo Packer v1.15.0 >&2"},
		{
			name: "another version", script: "echo Packer v1.14.0",
			wantErr: "checking `tool --version`: printed \"Packer v1.14.0\", must contain \"Packer v1.15.0\"",
		},
		{
			name: "does not run", script: "echo cannot load >&2; exit 3",
			wantErr: "running tool --version: exit status 3\ncannot load",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "tool")
			require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, "#!/bin/sh\n%s\n", test.script), 0o755))
			err := probe{[]string{"--version"}, format("Packer v%s")}.check(t.Context(), program, "1.15.0")
			if test.wantErr == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.wantErr)
		})
	}
}

// A program built from another module must fail the check.
func TestVerifyRefusesProgramOfAnotherModule(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(folder, "packer")))
	tool, version, err := Find(NamePacker, "")
	require.NoError(t, err)
	err = builder{tool: tool, version: version, arch: "amd64"}.verify(t.Context(), folder, ".")
	require.ErrorContains(t, err, "checking packer: built from github.com/eksnode/packer-plugin-eksnode/e2e/tools.test, must be built from github.com/hashicorp/packer")
}

func TestCacheKeepsNoFailedEntry(t *testing.T) {
	where := cache{folder: t.TempDir()}
	broken := errors.New("compiler on fire")
	_, err := where.entry(t.Context(), "thing", &strings.Builder{}, func(folder string) error {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "half"), nil, 0o644))
		return broken
	})
	require.ErrorIs(t, err, broken)
	assert.Equal(t, []string{"thing.lock"}, names(t, where.folder))

	folder, err := where.entry(t.Context(), "thing", &strings.Builder{}, func(string) error { return nil })
	require.NoError(t, err, "a failed try must release the lock")
	assert.Empty(t, names(t, folder))
}

func TestCacheRemovesFoldersOfKilledProcess(t *testing.T) {
	where := cache{folder: t.TempDir()}
	for _, left := range []string{".thing_1.123", ".thing_12.456"} {
		require.NoError(t, os.MkdirAll(filepath.Join(where.folder, left, "deep"), 0o755))
	}
	_, err := where.entry(t.Context(), "thing_1", &strings.Builder{}, func(string) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, []string{".thing_12.456", "thing_1", "thing_1.lock"}, names(t, where.folder),
		"another key's folder may be in use")
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

func TestKubernetesVersionFromEnvironment(t *testing.T) {
	for asked, want := range map[string]string{"": "1.36.3", "1.35.4": "1.35.4", "1.99.0": "1.36.3"} {
		t.Setenv("KUBERNETES", asked)
		_, got, err := Find(NameKubelet, "")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		_, got, err = Find(NameKubelet, "1.34.4")
		require.NoError(t, err)
		assert.Equal(t, "1.34.4", got)
	}
}

// Builds with different results must have different keys in the cache.
func TestCacheKeysDifferByBuildArguments(t *testing.T) {
	packer, _, err := Find(NamePacker, "")
	require.NoError(t, err)
	tagged := packer
	tagged.tags = []string{"extra"}
	keys := map[string]bool{}
	for _, one := range []builder{
		{tool: packer, version: "1.15.0", arch: "amd64"},
		{tool: packer, version: "1.12.0", arch: "amd64"},
		{tool: packer, version: "1.15.0", arch: "arm64"},
		{tool: tagged, version: "1.15.0", arch: "amd64"},
	} {
		keys[one.key("go1.26.0")] = true
		keys[one.key("go1.26.1")] = true
	}
	assert.Len(t, keys, 8)
}
