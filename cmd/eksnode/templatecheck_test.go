//go:build !agent

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
)

func TestTemplatesAreChecked(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) string {
		name = filepath.Join(folder, name)
		testkit.Write(t, name, text)
		return name
	}
	const good = "build {\nsources = [\"null.x\"]\nprovisioner \"eksnode-scrub\" {}\n}\n"
	wrong := put("wrong/node.pkr.hcl", good[:len(good)-2]+"provisioner \"shell\" {}\n}\n")
	put("wrong/team.auto.pkrvars.hcl", "not read")
	warned := put("warned.pkr.hcl", "source \"amazon-ebs\" \"x\" {}\nbuild {\nsources = [\"amazon-ebs.x\"]\nprovisioner \"eksnode-scrub\" {}\n}\n")
	for name, c := range map[string]struct {
		argument string
		code     int
		out, err string
	}{
		"no mistake": {put("good.pkr.hcl", good), 0, "PASS: ", ""},
		"a warning":  {warned, 0, ":1: warning: without the tag eksnode:kubernetes-version", ""},
		"a mistake": {filepath.Dir(wrong), 1, wrong + ":4: the provisioner shell runs after the scrub, and what it writes is in the image; " +
			"move it before eksnode-scrub in line 3 (after-scrub)\nFAIL: ", ""},
		"no template":     {put("empty/x.hcl", ""), 2, "", "must end in .pkr.hcl or .pkr.json"},
		"an empty folder": {filepath.Join(folder, "empty"), 2, "", "has no file whose name ends in .pkr.hcl"},
		"nothing there":   {filepath.Join(folder, "missing"), 2, "", "no such file"},
		"an open block":   {put("open.pkr.hcl", "build {"), 2, "", "open.pkr.hcl:1: "},
		"another plugin":  {put("other.pkr.hcl", "build {}\n"), 2, "", "no build has a component of eksnode"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			assert.Equal(t, c.code, run(t.Context(), []string{"check", c.argument}, nil, &out, &errOut), errOut.String())
			assert.Contains(t, out.String(), c.out)
			assert.Contains(t, errOut.String(), c.err)
		})
	}
	var out bytes.Buffer
	assert.Equal(t, 1, run(t.Context(), []string{"check", wrong, "--output", "json"}, nil, &out, &out))
	var said struct {
		Findings []struct {
			Rule, File, Text, Remedy string
			Line                     int
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &said))
	require.Len(t, said.Findings, 1)
	assert.Equal(t, "after-scrub", said.Findings[0].Rule)
	assert.Equal(t, 4, said.Findings[0].Line)
}

// On a terminal one line changes and disappears at the end. Elsewhere there is a line
// every ten seconds.
func TestMetersPrintProgress(t *testing.T) {
	const first, second = "25 % of 2.1 MB, 0.0 MB/s, 30.0 s left", "50 % of 2.1 MB, 0.0 MB/s, 20.0 s left"
	for terminal, want := range map[bool]string{
		true:  "\r\x1b[K" + first + "\r\x1b[Kcopied\n\r\x1b[K" + second + "\r\x1b[K",
		false: first + "\ncopied\n" + second + "\n",
	} {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		m := newMeter(&out)
		m.terminal, m.Now = terminal, func() time.Time { return now }
		m.upload(snapshot.Progress{Total: 4})
		now = now.Add(10 * time.Second)
		m.upload(snapshot.Progress{Read: 1, Total: 4})
		m.say("copied")
		now = now.Add(time.Second / 4)
		m.upload(snapshot.Progress{Read: 1, Total: 4})
		now = now.Add(10*time.Second - time.Second/4)
		m.upload(snapshot.Progress{Read: 2, Total: 4})
		m.end()
		m.end()
		assert.Equal(t, want, out.String())
	}
}
