package tools

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
