//go:build linux

package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// asked is a listening inbox, the Packer host's end of it, and its requests.
func asked(t *testing.T) (box *inbox, host io.Writer, wants chan asset.Wanted, ended context.Context) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	in, out := io.Pipe()
	t.Cleanup(func() { out.Close() })
	wants = make(chan asset.Wanted, 1)
	box = newInbox(in, time.Hour, cancel)
	box.want = func(w asset.Wanted) { wants <- w }
	go box.listen(ctx)
	return box, out, wants, ctx
}

// frame is a line with the bytes that follow.
func frame(t *testing.T, f Frame, data string) string {
	t.Helper()
	return string(line(t, f)) + data
}

func TestAnswersComeInChunks(t *testing.T) {
	box, host, wants, _ := asked(t)
	for _, text := range []string{"first", "", strings.Repeat("second\n", 30_000)} {
		go func() {
			w := <-wants
			var b strings.Builder
			b.WriteString("\n\n" + frame(t, Frame{Supplied: &asset.Supplied{Size: int64(len(text)), SHA256: w.Asset}}, "\n"))
			for rest := text; rest != ""; {
				n := min(len(rest), ChunkMost)
				b.WriteString(frame(t, Frame{Chunk: n}, rest[:n]) + "\n")
				rest = rest[n:]
			}
			_, err := io.WriteString(host, b.String()+frame(t, Frame{End: true}, ""))
			assert.NoError(t, err)
		}()
		got, err := box.Supply(t.Context(), asset.Wanted{Asset: "kubelet"})
		require.NoError(t, err)
		assert.Equal(t, "kubelet", got.SHA256)
		data, err := io.ReadAll(got)
		require.NoError(t, err)
		assert.Equal(t, text, string(data))
	}
}

func TestAnAbandonedRequestDoesNotBlockTheNext(t *testing.T) {
	box, host, wants, _ := asked(t)
	go func() {
		for w := range wants {
			_, err := io.WriteString(host, frame(t, Frame{Supplied: &asset.Supplied{SHA256: w.Asset}}, "")+
				frame(t, Frame{Chunk: 3}, "abc")+frame(t, Frame{Chunk: 3}, "def")+frame(t, Frame{End: true}, ""))
			assert.NoError(t, err)
		}
	}()
	got, err := box.Supply(t.Context(), asset.Wanted{Asset: "one"})
	require.NoError(t, err)
	require.NoError(t, got.Close())
	got, err = box.Supply(t.Context(), asset.Wanted{Asset: "two"})
	require.NoError(t, err)
	assert.Equal(t, "two", got.SHA256)
	data, err := io.ReadAll(got)
	require.NoError(t, err)
	assert.Equal(t, "abcdef", string(data))
	close(wants)
}

func TestErrorsOfThePackerHost(t *testing.T) {
	box, host, wants, _ := asked(t)
	answer := func(text string) {
		<-wants
		_, err := io.WriteString(host, text)
		assert.NoError(t, err)
	}
	go answer(frame(t, Frame{Error: "no such registry"}, ""))
	_, err := box.Supply(t.Context(), asset.Wanted{Image: "x"})
	require.EqualError(t, err, "no such registry")
	go answer(frame(t, Frame{Supplied: &asset.Supplied{}}, "") + frame(t, Frame{Chunk: 1}, "a") + frame(t, Frame{Error: "the disk broke"}, ""))
	got, err := box.Supply(t.Context(), asset.Wanted{Image: "x"})
	require.NoError(t, err)
	_, err = io.ReadAll(got)
	require.EqualError(t, err, "the disk broke")
}

func TestInvalidFramesEndTheSession(t *testing.T) {
	head := frame(t, Frame{Supplied: &asset.Supplied{}}, "")
	for name, text := range map[string]string{
		"no JSON":                 "hello\n",
		"a chunk of nothing":      frame(t, Frame{Chunk: 1}, "a"),
		"a chunk that is too big": head + frame(t, Frame{Chunk: ChunkMost + 1}, ""),
		"a chunk below zero":      head + `{"chunk":-1}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			box, host, wants, ended := asked(t)
			go func() {
				if strings.HasPrefix(text, head) {
					<-wants
				}
				_, _ = io.WriteString(host, text)
			}()
			if strings.HasPrefix(text, head) {
				got, err := box.Supply(t.Context(), asset.Wanted{Asset: "kubelet"})
				require.NoError(t, err)
				_, err = io.ReadAll(got)
				require.ErrorIs(t, err, ErrHungUp)
			}
			<-ended.Done()
			assert.ErrorIs(t, context.Cause(ended), ErrHungUp)
		})
	}
}

func TestTheAgentRequestsThroughItsSession(t *testing.T) {
	in, host := io.Pipe()
	defer host.Close()
	events, out := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	w := &writer{out: out, failed: cancel}
	box := newInbox(in, time.Hour, cancel)
	box.want = func(wanted asset.Wanted) { w.send(Event{Kind: Want, Want: &wanted}) }
	go box.listen(ctx)
	go func() {
		buffer := make([]byte, 1000)
		n, err := events.Read(buffer)
		assert.NoError(t, err)
		assert.Equal(t, `{"event":"want","want":{"image":"r/p:1@sha256:0","as":"q"}}`, string(bytes.TrimSpace(buffer[:n])))
		_, err = fmt.Fprintf(host, "%s%s", frame(t, Frame{Supplied: &asset.Supplied{Digest: "d"}}, ""), frame(t, Frame{End: true}, ""))
		assert.NoError(t, err)
	}()
	got, err := box.Supply(t.Context(), asset.Wanted{Image: "r/p:1@sha256:0", As: "q"})
	require.NoError(t, err)
	assert.Equal(t, "d", got.Digest)
}
