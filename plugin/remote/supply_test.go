//go:build linux

package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// unpack reads an answer the way the agent does.
func unpack(t *testing.T, from io.Reader) (frames []agent.Frame, data string) {
	t.Helper()
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return frames, data
		}
		require.NoError(t, err)
		f := testkit.JSON[agent.Frame](t, line)
		chunk := make([]byte, f.Chunk)
		_, err = io.ReadFull(in, chunk)
		require.NoError(t, err)
		frames, data = append(frames, f), data+string(chunk)
	}
}

func TestAnswersAreSentInFrames(t *testing.T) {
	text := strings.Repeat("x", agent.ChunkMost) + "rest"
	frames, data := unpack(t, newFrames(&asset.Supplied{ReadCloser: io.NopCloser(strings.NewReader(text)), Size: 7,
		SHA256: "s", Digest: "d"}, nil, func() {}))
	assert.Equal(t, text, data)
	assert.Equal(t, []agent.Frame{{Supplied: &asset.Supplied{Size: 7, SHA256: "s", Digest: "d"}},
		{Chunk: agent.ChunkMost}, {Chunk: 4}, {End: true}}, frames)
	frames, _ = unpack(t, newFrames(nil, errors.New("no such registry"), func() {}))
	assert.Equal(t, []agent.Frame{{Error: "no such registry"}}, frames)
	frames, data = unpack(t, newFrames(&asset.Supplied{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("half"), failingDisk{}))}, nil, func() {}))
	assert.Equal(t, "half", data)
	assert.Equal(t, agent.Frame{Error: "input/output error"}, frames[len(frames)-1])
}

type failingDisk struct{}

func (failingDisk) Read([]byte) (int, error) { return 0, errors.New("input/output error") }

func TestFeedSendsAnswersBetweenBeats(t *testing.T) {
	f := newFeed(strings.NewReader("request\n"), time.Millisecond)
	f.begin()
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

// Files that are opened for a machine are closed, also when the machine hangs up.
func TestSuppliedFilesAreClosed(t *testing.T) {
	for name, hang := range map[string]bool{"read": false, "hung up": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(path, []byte("content"), 0o644))
			file, err := os.Open(path)
			require.NoError(t, err)
			f := newFeed(strings.NewReader(""), time.Hour)
			f.begin()
			s := supplier{supply: always{&asset.Supplied{ReadCloser: file}}, feed: f,
				console: console.New((&monitor{}).ui(), console.Options{Now: time.Now})}
			answered := make(chan struct{})
			go func() { s.answer(t.Context(), asset.Wanted{Asset: "kubelet"}, func() {}); close(answered) }()
			if !hang {
				wait := make([]byte, len(`{"supplied":{"size":0,"sha256":""}}`+"\n"+`{"chunk":7}`+"\ncontent"+`{"end":true}`+"\n"))
				_, err = io.ReadFull(f, wait)
				require.NoError(t, err)
				go func() { _, _ = f.Read(wait) }() // reads the end of the answer
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

type always struct{ supplied *asset.Supplied }

func (a always) Supply(context.Context, asset.Wanted) (*asset.Supplied, error) {
	return a.supplied, nil
}

// Many requests at once start one download.
func TestOneDownloadAtATime(t *testing.T) {
	var asked []asset.Wanted
	hung := 0
	c := &conversation{heard: heard{begun: true, hello: true}, private: Config{}.private, begin: func() {},
		console: console.New((&monitor{}).ui(), console.Options{Now: time.Now}), hangUp: func() { hung++ },
		want: func(w asset.Wanted) { asked = append(asked, w) }}
	want := func(asset string) { c.line([]byte(`{"event":"want","want":{"asset":"` + asset + `"}}`)) }
	for range 5000 {
		want("kubelet")
	}
	assert.Len(t, asked, 1)
	require.EqualError(t, c.soFar().err, "reading the agent's events: kubelet is wanted before kubelet has been sent")
	assert.Equal(t, 1, hung)

	c.err, c.wanted, asked = nil, nil, nil
	for range 2 * wantsMost {
		want("runc")
		c.answered()
	}
	assert.LessOrEqual(t, len(asked), wantsMost)
	require.EqualError(t, c.soFar().err, "reading the agent's events: more than 1000 things are wanted")
}

// The next request is allowed as soon as the last byte of an answer is read, and
// not before.
func TestAnAnswerEndsWithItsLastByte(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		err  error
	}{"content": {body: "content"}, "nothing": {}, "an error": {err: errors.New("no such registry")}} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			f := newFrames(&asset.Supplied{ReadCloser: io.NopCloser(strings.NewReader(c.body))}, c.err,
				func() { sent++ })
			var all []byte
			one := make([]byte, 1)
			for {
				before := sent
				n, err := f.Read(one)
				if errors.Is(err, io.EOF) {
					assert.Equal(t, 1, before, "before the end is read")
					break
				}
				all = append(all, one[:n]...)
				assert.Equal(t, sent == 1, strings.HasSuffix(string(all), `"end":true}`+"\n") ||
					strings.HasSuffix(string(all), `registry"}`+"\n"), "%q", all)
			}
			assert.Equal(t, 1, sent)
		})
	}
}

// The size and number of events and outcomes are limited.
func TestEventsOfTheMachineAreBounded(t *testing.T) {
	fresh := func() *conversation {
		return &conversation{heard: heard{begun: true, hello: true}, private: Config{}.private, begin: func() {},
			console: console.New((&monitor{}).ui(), console.Options{Now: time.Now}), hangUp: func() {}}
	}
	c := fresh()
	c.line([]byte(`{"event":"finished","report":{"outcomes":[null` + strings.Repeat(",null", valuesMost+1) + `]}}`))
	require.EqualError(t, c.soFar().err, "reading the agent's events: an event with more than 2000000 values")

	c = fresh()
	c.events = eventsMost
	c.line([]byte(`{"event":"alive"}`))
	require.EqualError(t, c.soFar().err, "reading the agent's events: there are more than 1000000")

	c = fresh()
	c.outcomeBytes = outcomeMost
	c.line([]byte(`{"event":"end","outcome":{"item":"x"}}`))
	require.EqualError(t, c.soFar().err, "reading the agent's events: the outcomes have more than 134217728 bytes")
	assert.Empty(t, c.soFar().outcomes)
}

// FuzzEvents reads any stream of a machine. Output is printable, and memory use is
// bounded.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"{\"event\":\"hello\",\"message\":\"1\"}\n{\"event\":\"want\",\"want\":{\"asset\":\"x\"}}\n{\"event\":\"want\",\"want\":{}}\n",
		"{\"event\":\"hello\",\"message\":\"1\"}\n{\"event\":\"end\",\"outcome\":{\"item\":\"\\u009b\",\"findings\":[{\"target\":\"\\u001b]52;c;\"}]}}\r\n",
		"{\"event\":\"hello\",\"message\":\"1\"}\n{\"event\":\"progress\",\"done\":-1,\"total\":1}\n{\"event\":\"finished\",\"report\":{\"plan\":[null],\"audit\":{}}}\n" + overMark,
		"Welcome\x1b[2J\n{\"event\":\"hello\",\"message\":\"2\"}\n{\"event\":\"begin\"}\n\xff\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		m := &monitor{}
		busy := 0
		c := &conversation{heard: heard{begun: true}, private: Config{}.private, begin: func() {},
			console: console.New(&screen{Ui: m.ui()}, console.Options{Now: time.Now}), version: "1", hangUp: func() {},
			want: func(asset.Wanted) { busy++ }}
		l := &lines{most: 1 << 16, each: c.line}
		_, err := l.Write(stream)
		require.NoError(t, err)
		l.Flush()
		assert.LessOrEqual(t, busy, 1)
		m.printable(t)
		if err := shown(c.soFar().err); err != nil {
			assert.Equal(t, show.Printable(err.Error()), err.Error())
		}
	})
}
