//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

const tool = "1.2.3"

// image is a Debian root with one thing to scrub.
func image(t *testing.T) (*host.Host, string) {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n",
	} {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(content), 0o644))
	}
	h, err := host.Mounted(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h, root
}

func line(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return append(text, '\n')
}

// events reads a whole stream.
func events(t *testing.T, stream io.Reader) []Event {
	t.Helper()
	var all []Event
	s := bufio.NewScanner(stream)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var e Event
		require.NoError(t, json.Unmarshal(s.Bytes(), &e), s.Text())
		all = append(all, e)
	}
	require.NoError(t, s.Err())
	return all
}

// open is a standard input that stays open after the request, as the plugin's.
func open(t *testing.T, request []byte) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	go func() { _, _ = w.Write(request) }()
	return r
}

func TestServeScrubsAndAudits(t *testing.T) {
	h, root := image(t)
	only := &scrub.Spec{Only: []string{"machine-id"}}
	for _, step := range []struct {
		command Command
		dry     bool
		result  plan.Result
		left    string
	}{
		{Audit, false, plan.Findings, "0123456789abcdef0123456789abcdef\n"},
		{Scrub, true, plan.DryRun, "0123456789abcdef0123456789abcdef\n"},
		{Scrub, false, plan.OK, ""},
		{Audit, false, plan.Clean, ""},
	} {
		var out bytes.Buffer
		r := Serve(t.Context(), h, open(t, line(t, Request{Version: tool, Command: step.command, DryRun: step.dry, Scrub: only})), &out, tool)
		assert.Equal(t, step.result, r.Result, r.Error)
		got := events(t, &out)
		assert.Equal(t, Event{Kind: Hello, Message: tool}, got[0])
		last := got[len(got)-1]
		assert.Equal(t, Finished, last.Kind)
		assert.Equal(t, step.result, last.Report.Result)
		assert.Equal(t, "debian", last.Report.Machine.Distro)
		text, err := os.ReadFile(filepath.Join(root, "etc/machine-id"))
		require.NoError(t, err)
		assert.Equal(t, step.left, string(text))
	}
}

func TestServeRefusesBadRequests(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		err     string
	}{
		"nothing":         {"", "reading the request: EOF"},
		"no JSON":         {"hello\n", "reading the request: invalid character"},
		"unknown field":   {`{"version":"1.2.3","command":"scrub","force":true}` + "\n", `unknown field "force"`},
		"other version":   {`{"version":"1.2.4","command":"scrub","scrub":{}}` + "\n", `of version "1.2.4", and this is the agent of version "1.2.3"`},
		"unknown command": {`{"version":"1.2.3","command":"erase"}` + "\n", `the command "erase" is not known; known: provision, scrub, audit`},
		"no spec":         {`{"version":"1.2.3","command":"scrub"}` + "\n", "scrub needs its spec in the field scrub"},
		"unknown rule":    {`{"version":"1.2.3","command":"scrub","scrub":{"only":["x"]}}` + "\n", `no rule or group is named "x"`},
		"other folder":    {`{"version":"1.2.3","command":"scrub","scrub":{},"folder":"/usr/bin"}` + "\n", "not from the folder /usr/bin it was told to remove"},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := image(t)
			var out bytes.Buffer
			r := Serve(t.Context(), h, bytes.NewReader([]byte(c.request)), &out, tool)
			assert.Equal(t, plan.Failure, r.Result)
			assert.Contains(t, r.Error, c.err)
			got := events(t, &out)
			assert.Equal(t, Finished, got[len(got)-1].Kind)
			text, err := os.ReadFile(filepath.Join(root, "etc/machine-id"))
			require.NoError(t, err)
			assert.NotEmpty(t, text, "nothing was changed")
		})
	}
}

func TestServeRefusesADistributionItDoesNotKnow(t *testing.T) {
	h, root := image(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("ID=plan9\n"), 0o644))
	r := Serve(t.Context(), h, open(t, line(t, Request{Version: tool, Command: Scrub, Scrub: &scrub.Spec{}})), io.Discard, tool)
	assert.Equal(t, plan.Failure, r.Result)
	assert.Contains(t, r.Error, `"plan9"`)
	assert.Contains(t, r.Error, "debian")

	r = Run(t.Context(), h, Request{Command: Audit, Scrub: &scrub.Spec{}}, tool, nil)
	assert.Equal(t, plan.Unknown, r.Result, "an audit that could not look has not found anything")
	assert.Contains(t, r.Error, `"plan9"`)
}

// A request that is followed by a closed input comes from a packer host that is
// gone: whatever had not begun is left.
func TestServeStopsWhenThePackerHostHangsUp(t *testing.T) {
	h, _ := image(t)
	in, packer := io.Pipe()
	out := hangsUp{packer}
	go func() { _, _ = packer.Write(line(t, Request{Version: tool, Command: Scrub, Scrub: &scrub.Spec{}})) }()
	r := Serve(t.Context(), h, in, out, tool)
	assert.Equal(t, plan.Failure, r.Result)
	assert.Contains(t, r.Error, ErrHungUp.Error())
}

// hangsUp closes the agent's input at the first sign of work, and its own pipe
// with it.
type hangsUp struct{ input *io.PipeWriter }

func (h hangsUp) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"begin"`)) {
		return 0, errors.Join(h.input.Close(), errors.New("broken pipe"))
	}
	return len(p), nil
}
