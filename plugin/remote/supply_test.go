//go:build linux

package remote

import (
	"bufio"
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

	"github.com/eksnode/packer-plugin-eksnode/agent"
	"github.com/eksnode/packer-plugin-eksnode/artifact"
)

// unpack reads an answer as the agent does.
func unpack(t *testing.T, from io.Reader) (frames []agent.Frame, data string) {
	t.Helper()
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return frames, data
		}
		require.NoError(t, err)
		var f agent.Frame
		require.NoError(t, json.Unmarshal(line, &f))
		chunk := make([]byte, f.Chunk)
		_, err = io.ReadFull(in, chunk)
		require.NoError(t, err)
		frames, data = append(frames, f), data+string(chunk)
	}
}

func TestAnAnswerInFrames(t *testing.T) {
	text := strings.Repeat("x", agent.ChunkMost) + "rest"
	frames, data := unpack(t, newFrames(&artifact.Supplied{ReadCloser: io.NopCloser(strings.NewReader(text)), Size: 7, SHA256: "s", Digest: "d"}, nil))
	assert.Equal(t, text, data)
	assert.Equal(t, []agent.Frame{{Supplied: &artifact.Supplied{Size: 7, SHA256: "s", Digest: "d"}}, {Chunk: agent.ChunkMost}, {Chunk: 4}, {End: true}}, frames)
	frames, _ = unpack(t, newFrames(nil, errors.New("no such registry")))
	assert.Equal(t, []agent.Frame{{Error: "no such registry"}}, frames)
	frames, data = unpack(t, newFrames(&artifact.Supplied{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("half"), failingDisk{}))}, nil))
	assert.Equal(t, "half", data)
	assert.Equal(t, agent.Frame{Error: "input/output error"}, frames[len(frames)-1])
}

type failingDisk struct{}

func (failingDisk) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestFeedSendsAnswersBetweenBeats(t *testing.T) {
	f := newFeed(strings.NewReader("request\n"), time.Millisecond)
	defer f.hangUp()
	go f.send(strings.NewReader("answer\n"))
	in := bufio.NewReader(f)
	for _, want := range []string{"request\n", "answer\n", "\n"} {
		line, err := in.ReadString('\n')
		require.NoError(t, err)
		for line == "\n" && want != "\n" {
			line, err = in.ReadString('\n')
			require.NoError(t, err)
		}
		assert.Equal(t, want, line)
	}
}

// What was opened for a machine is closed, also when the machine hangs up.
func TestAnAnswerIsClosed(t *testing.T) {
	for name, hang := range map[string]bool{"read": false, "hung up": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
			file, err := os.Open(path)
			require.NoError(t, err)
			f := newFeed(strings.NewReader(""), time.Hour)
			s := supplier{supply: always{&artifact.Supplied{ReadCloser: file}}, feed: f, console: newConsole((&monitor{}).ui(), time.Now)}
			answered := make(chan struct{})
			go func() { s.answer(t.Context(), artifact.Wanted{Asset: "kubelet"}); close(answered) }()
			if !hang {
				wait := make([]byte, len(`{"supplied":{"size":0,"sha256":""}}`+"\n"+`{"chunk":7}`+"\ncontent"+`{"end":true}`+"\n"))
				_, err = io.ReadFull(f, wait)
				require.NoError(t, err)
				go func() { _, _ = f.Read(wait) }() // which finds the answer's end
			} else {
				f.hangUp()
			}
			<-answered
			f.hangUp()
			_, err = file.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrClosed)
		})
	}
}

type always struct{ supplied *artifact.Supplied }

func (a always) Supply(context.Context, artifact.Wanted) (*artifact.Supplied, error) {
	return a.supplied, nil
}
