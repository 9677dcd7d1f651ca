package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// built is a program of some lines, compiled as releases are, or not.
func built(t *testing.T, released bool, to target) packed {
	r := one(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "go.mod"), []byte("module example.com/x\n\ngo 1.26\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(r.root, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o644))
	program := filepath.Join(t.TempDir(), "x")
	if released {
		r.log = os.Stderr
		require.NoError(t, r.compile(t.Context(), r.root, to, ".", program))
	} else {
		_, err := output(t.Context(), r.root, "go", "build", "-o", program, ".")
		require.NoError(t, err)
	}
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	return packed{name: "x", mode: 0o755, content: content}
}

func TestAProgramIsCheckedForItsTarget(t *testing.T) {
	file := built(t, true, own())
	require.NoError(t, builtFor(file, own()))
	require.EqualError(t, builtFor(file, target{"plan9", own().arch}), "x was not built with GOOS=plan9")
	require.EqualError(t, builtFor(packed{name: "x", mode: 0o644, content: file.content}, own()), "x has the mode 0644, not 0755")
	require.ErrorContains(t, builtFor(packed{name: "x", mode: 0o755, content: []byte("#!/bin/sh")}, own()), "reading the build information of x: ")
	require.EqualError(t, builtFor(built(t, false, own()), own()), "x was not built with -trimpath=true")
}

func TestAPluginWithoutItsAgentsIsNoRelease(t *testing.T) {
	folder := t.TempDir()
	agent, program := filepath.Join(folder, "agent.gz"), filepath.Join(folder, "plugin")
	require.NoError(t, os.WriteFile(agent, []byte("the agent"), 0o644))
	require.NoError(t, os.WriteFile(program, []byte("...the agent..."), 0o644))
	agents := map[string]string{"/src/eksnode-linux-amd64.gz": agent}
	require.NoError(t, carries(program, agents))
	require.NoError(t, os.WriteFile(program, []byte("...the agen..."), 0o644))
	assert.EqualError(t, carries(program, agents), "looking into plugin: it does not hold eksnode-linux-amd64.gz")
}

func TestAFileThatNobodyAskedForIsNoted(t *testing.T) {
	r, out := one(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(out, r.pluginArchive(own())), nil, 0o644))
	require.NoError(t, r.nothingElse(out, []target{own()}))
	require.NoError(t, os.WriteFile(filepath.Join(out, "x"), nil, 0o644))
	require.EqualError(t, r.nothingElse(out, []target{own()}), "listing the release: nobody asked for x")
}
