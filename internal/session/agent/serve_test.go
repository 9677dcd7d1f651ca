//go:build linux

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

const tool = "1.2.3"

// image is a Debian image root with one finding for a scrub.
func image(t *testing.T) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
		"etc/machine-id": "0123456789abcdef0123456789abcdef\n", "opt/empty": "",
	})
	return h, h.Root()
}

// scrubbing is a run for scrubs and audits.
func scrubbing(ctx context.Context, h *host.Host, req Request, sink plan.Sink, _ asset.Supply) plan.Report {
	var r plan.Report // the report contains the error too
	if req.Command == Audit {
		r, _ = eksnode.Audit(ctx, h, *req.Scrub, eksnode.Options{})
	} else {
		r, _ = eksnode.Scrub(ctx, h, *req.Scrub, eksnode.Options{DryRun: req.DryRun, Sink: sink})
	}
	return r
}

func line(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return append(text, '\n')
}

func events(t *testing.T, stream io.Reader) []Event {
	t.Helper()
	var all []Event
	s := bufio.NewScanner(stream)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		if len(s.Bytes()) == 0 {
			continue // before each event
		}
		e := testkit.JSON[Event](t, s.Bytes())
		all = append(all, e)
	}
	require.NoError(t, s.Err())
	return all
}

// open is a standard input that stays open after the request, as the plugin's does.
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
		r := Serve(t.Context(), h, open(t, line(t, Request{Version: tool, Command: step.command, DryRun: step.dry, Scrub: only})), &out, tool, scrubbing)
		assert.Equal(t, step.result, r.Result, r.Error)
		got := events(t, &out)
		assert.Equal(t, Event{Kind: Hello, Message: tool}, got[0])
		last := got[len(got)-1]
		assert.Equal(t, Finished, last.Kind)
		assert.Equal(t, step.result, last.Report.Result)
		assert.Equal(t, "debian", last.Report.Machine.Distro)
		assert.Equal(t, step.left, testkit.Content(t, filepath.Join(root, "etc/machine-id")))
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
		"other version":   {`{"version":"1.2.4","command":"scrub","scrub":{}}` + "\n", `the plugin has version "1.2.4", but the agent has version "1.2.3"`},
		"unknown command": {`{"version":"1.2.3","command":"erase"}` + "\n", `the command "erase" is not known; known: provision, scrub, audit`},
		"no spec":         {`{"version":"1.2.3","command":"scrub"}` + "\n", "scrub needs its spec in the field scrub"},
		"unknown rule":    {`{"version":"1.2.3","command":"scrub","scrub":{"only":["x"]}}` + "\n", `no rule, phase or group is named "x"`},
		"other folder":    {`{"version":"1.2.3","command":"scrub","scrub":{},"folder":"/usr/bin"}` + "\n", "not from the folder /usr/bin of the request"},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := image(t)
			var out bytes.Buffer
			r := Serve(t.Context(), h, bytes.NewReader([]byte(c.request)), &out, tool, scrubbing)
			assert.Equal(t, plan.Failure, r.Result)
			assert.Contains(t, r.Error, c.err)
			got := events(t, &out)
			assert.Equal(t, Finished, got[len(got)-1].Kind)
			assert.NotEmpty(t, testkit.Content(t, filepath.Join(root, "etc/machine-id")), "nothing was changed")
		})
	}
}

// The agent gives up on a connection that stays open without a complete request.
func TestServeGivesUpOnAnIncompleteRequest(t *testing.T) {
	for name, begun := range map[string]string{"nothing": "", "a half": `{"version":"1.2.3","comm`} {
		t.Run(name, func(t *testing.T) {
			h, _ := image(t)
			var out bytes.Buffer
			r := serve(t.Context(), h, open(t, []byte(begun)), &out, tool, scrubbing, 10*time.Millisecond)
			assert.Equal(t, plan.Failure, r.Result)
			assert.Equal(t, "reading the request: "+ErrHungUp.Error()+" (nothing heard for 10ms)", r.Error)
			got := events(t, &out)
			assert.Equal(t, Finished, got[len(got)-1].Kind)
		})
	}
}

func TestLinesOfTheInputAreBounded(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\n"), 16)
	_, err := readLine(in, 99)
	require.EqualError(t, err, "a line of more than 99 bytes")
	in = bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\ny"), 16)
	line, err := readLine(in, 101)
	require.NoError(t, err)
	assert.Len(t, line, 101)
	_, err = readLine(in, 101)
	require.ErrorIs(t, err, io.EOF)
}

// FuzzRequest reads any line as a request.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"version":"1.2.3","command":"scrub","scrub":{"audit":"warn","only":["x"]}}` + "\n"))
	f.Add([]byte(`{"version":"1.2.3","command":"provision","provision":{"source_url":"file:///x"},"folder":"/"}` + "\n"))
	f.Add([]byte("{}\n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		req, err := readRequest(bufio.NewReaderSize(bytes.NewReader(text), 16), tool)
		if err == nil {
			assert.Equal(t, tool, req.Version)
			assert.NoError(t, req.check())
		}
	})
}

// FuzzFrames sends any frames: reading ends.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("\n{\"chunk\":1}\nx{\"end\":true}\n"))
	f.Add([]byte("{\"supplied\":{}}\n{\"chunk\":3}\nabc{\"end\":true}\n{\"error\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ctx, cancel := context.WithCancelCause(t.Context())
		box := newInbox(bytes.NewReader(text), time.Hour, cancel)
		box.want = func(asset.Wanted) {}
		over := make(chan struct{})
		go func() { defer close(over); box.listen(ctx) }()
		for ctx.Err() == nil {
			if got, err := box.Supply(ctx, asset.Wanted{Asset: "x"}); err == nil {
				_, _ = io.Copy(io.Discard, got)
			}
		}
		<-over
	})
}

// When the input closes after the request, the Packer host is gone, and the agent
// begins no further item.
func TestServeStopsWhenThePackerHostHangsUp(t *testing.T) {
	h, _ := image(t)
	in, packer := io.Pipe()
	out := hangsUp{packer}
	go func() { _, _ = packer.Write(line(t, Request{Version: tool, Command: Scrub, Scrub: &scrub.Spec{}})) }()
	r := Serve(t.Context(), h, in, out, tool, scrubbing)
	assert.Equal(t, plan.Failure, r.Result)
	assert.Contains(t, r.Error, ErrHungUp.Error())
}

// hangsUp closes the agent's input and its own pipe at the first event.
type hangsUp struct{ input *io.PipeWriter }

func (h hangsUp) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(`"begin"`)) {
		return 0, errors.Join(h.input.Close(), errors.New("broken pipe"))
	}
	return len(p), nil
}

// A provision that succeeds keeps its agent for the next provisioner, where no image has
// the copy. The agent of the next provisioner removes the copy.
func TestAProvisionKeepsItsAgent(t *testing.T) {
	for name, c := range map[string]struct {
		disk   bool // /run is on the disk
		dry    bool
		result plan.Result
		kept   bool
	}{
		"after success": {result: plan.OK, kept: true},
		"after failure": {result: plan.Failure},
		"dry run":       {result: plan.OK, dry: true},
		"on a disk":     {result: plan.OK, disk: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := image(t)
			run := filepath.Join(root, "run")
			require.NoError(t, os.Mkdir(run, 0o755))
			if !c.disk {
				require.NoError(t, unix.Mount("tmp", run, "tmpfs", 0, ""))
				t.Cleanup(func() { require.NoError(t, unix.Unmount(run, 0)) })
			}
			request := line(t, Request{Version: tool, Command: Provision, Provision: &provisioner.Spec{}, DryRun: c.dry})
			var out bytes.Buffer
			Serve(t.Context(), h, bytes.NewReader(request), &out, tool,
				func(context.Context, *host.Host, Request, plan.Sink, asset.Supply) plan.Report {
					return plan.Report{Result: c.result}
				})
			assert.NotContains(t, out.String(), `"warning"`)
			folder, err := os.Stat(filepath.Join(root, "run/eksnode-agent"))
			require.Equal(t, c.kept, err == nil)
			if c.kept {
				assert.Equal(t, os.ModeDir|0o700, folder.Mode())
				copied := []byte(testkit.Content(t, filepath.Join(root, rules.KeptAgent)))
				assert.True(t, bytes.Equal([]byte(testkit.Content(t, "/proc/self/exe")), copied))
			}
			require.NoError(t, rules.RemoveAgents(h, "/opt"))
			assert.NoDirExists(t, filepath.Join(root, "run/eksnode-agent"))
		})
	}
}

// The next agent removes what a cut session left beside its own folder.
func TestStaleAgentsAreOfTheFormThatTheScrubKnows(t *testing.T) {
	h, root := image(t)
	stale := filepath.Join(root, "opt", FolderPrefix+"0123456789abcdef")
	require.NoError(t, os.MkdirAll(stale, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(stale, "eksnode"), nil, 0o700))
	require.NoError(t, rules.RemoveAgents(h, "/opt"))
	assert.NoDirExists(t, stale)
}
