//go:build linux && !agent

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMIDiffComparesManifests(t *testing.T) {
	one, two := t.TempDir()+"/one.json", t.TempDir()+"/two.json"
	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.3","packages":[{"name":"runc","version":"1"}],"units":[{"name":"a","enabled":true}]}`), 0o600))
	require.NoError(t, os.WriteFile(two, []byte(`{"schema":"eksnode.image/v1","kubernetes_version":"1.34.4","assets":[{"id":"kubelet","version":"1.34.4","sha256":"ab"}],"units":[{"name":"a","enabled":false}]}`), 0o600))
	_, out, _ := command(t, "", "ami", "diff", one, two)
	assert.Equal(t, "+ asset kubelet: 1.34.4 ab\n~ kubernetes: 1.34.3 -> 1.34.4\n- package runc: 1\n~ unit a: starts at boot -> is started by the first boot\n4 differences between "+one+" and "+two+"\n", out)
	_, out, _ = command(t, "", "ami", "diff", one, two, "--output", "json")
	assert.JSONEq(t, `[{"fact": "asset kubelet", "before": null, "after": "1.34.4 ab"}, {"fact": "kubernetes", "before": "1.34.3", "after": "1.34.4"},
		{"fact": "package runc", "before": "1", "after": null}, {"fact": "unit a", "before": "starts at boot", "after": "is started by the first boot"}]`, out)

	require.NoError(t, os.WriteFile(one, []byte(`{"schema":"x"}`), 0o600))
	_, _, errOut := command(t, "", "ami", "diff", one, two)
	assert.Contains(t, errOut, `the schema is "x", not eksnode.image/v1`)
	_, _, errOut = command(t, "", "ami", "diff", one)
	assert.Equal(t, "eksnode ami diff needs two images or two manifests; eksnode ami diff --help shows the usage\n", errOut)
}
