package asset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const large = 3*pieceSize + 1

// The server sends the later pieces only after all of them are requested.
func TestPiecesAreFetchedAtTheSameTime(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(large))
	var waiting atomic.Int32
	all := make(chan struct{})
	m.faults[where] = func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			if waiting.Add(1) == 3 {
				close(all)
			}
			<-all
		}
		m.serve(w, r)
	}
	f := NewFetcher(Patience{Attempts: 1, Stall: time.Minute})
	_, err := Install(t.Context(), newMachine(t, nil).Host, f, m.program(where), quietly)
	require.NoError(t, err)
}

// later applies a fault to all but the first piece.
func (m *mirror) later(fault http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			m.serve(w, r)
			return
		}
		fault(w, r)
	}
}

func TestFailedPiecesAreRetriedOrErrors(t *testing.T) {
	data := noise(large)
	var failed atomic.Bool
	once := func(fault, then http.HandlerFunc) http.HandlerFunc {
		failed.Store(false)
		return func(w http.ResponseWriter, r *http.Request) {
			if failed.CompareAndSwap(false, true) {
				fault(w, r)
				return
			}
			then(w, r)
		}
	}
	cut := func(m *mirror) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { m.serve(&cutter{ResponseWriter: w, left: 1}, r) }
	}
	tests := map[string]struct {
		fault func(m *mirror) http.HandlerFunc
		err   string // {} means the mirror's URL
	}{
		"one piece is cut off":      {func(m *mirror) http.HandlerFunc { return m.later(once(cut(m), m.serve)) }, ""},
		"one piece gets a 503":      {func(m *mirror) http.HandlerFunc { return m.later(once(status(503), m.serve)) }, ""},
		"one connection is reset":   {func(m *mirror) http.HandlerFunc { return m.later(once(reset, m.serve)) }, ""},
		"ranges end":                {func(m *mirror) http.HandlerFunc { return m.later(whole(data)) }, ""},
		"no ranges at all":          {func(*mirror) http.HandlerFunc { return whole(data) }, ""},
		"ranges without the length": {func(*mirror) http.HandlerFunc { return unsized(data) }, ""},
		"all later pieces are missing": {func(m *mirror) http.HandlerFunc { return m.later(status(404)) },
			"kubelet 1.34.4 does not exist at {}" + where + ": the server answered 404 Not Found; check kubernetes_version"},
		"all later pieces get no answer": {func(m *mirror) http.HandlerFunc { return m.later(unanswered) },
			"fetching {}" + where + ": the server closed the connection without an answer; try again"},
		"the file grows": {func(m *mirror) http.HandlerFunc {
			return m.later(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Range", strings.TrimPrefix(r.Header.Get("Range"), "bytes=")+"/99999999")
				w.Header().Set("Content-Range", "bytes "+w.Header().Get("Content-Range"))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(make([]byte, pieceSize))
			})
		}, "fetching {}" + where + ": the file changed while it was being downloaded; try again"},
		"the server sends another range": {func(m *mirror) http.HandlerFunc {
			return m.later(func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Range", "bytes=7-9")
				m.serve(w, r)
			})
		}, fmt.Sprintf("fetching {}%s: the server sent the range \"bytes 7-9/%d\", but the request was for bytes from 4194304 on", where, large)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, data)
			m.faults[where] = test.fault(m)
			h := newMachine(t, nil)
			_, err := Install(t.Context(), h.Host, hasty(), m.program(where), quietly)
			if test.err != "" {
				require.EqualError(t, err, strings.ReplaceAll(test.err, "{}", m.URL))
				assert.NoFileExists(t, filepath.Join(h.root, "usr/bin/kubelet"))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, sumOf(data), sumOf([]byte(testkit.Content(t, filepath.Join(h.root, "usr/bin/kubelet")))))
		})
	}
}

// unanswered closes the connection before the answer.
func unanswered(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// A first piece that broke must not look like a short first piece: the next piece
// would follow in the wrong place.
func TestAnUnansweredRetryIsNoEndOfThePiece(t *testing.T) {
	m := newMirror(t)
	m.put(where, noise(large))
	m.faults[where] = func(w http.ResponseWriter, r *http.Request) {
		var from int
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		switch {
		case from == 0:
			m.serve(&cutter{ResponseWriter: w, left: 32 << 10}, r)
		case from < pieceSize:
			unanswered(w, r)
		default:
			m.serve(w, r)
		}
	}
	body, err := hasty().open(t.Context(), m.URL+where, 0)
	require.NoError(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	require.ErrorIs(t, err, errDropped)
	assert.Equal(t, noise(large)[:32<<10], got)
}

// whole is a server that supports no ranges.
func whole(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		_, _ = w.Write(data)
	}
}

// unsized is a server that sends ranges without the file's length.
func unsized(data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var from int64
		if asked := r.Header.Get("Range"); asked != "" {
			_, _ = fmt.Sscanf(asked, "bytes=%d-", &from)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/*", from, len(data)-1))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(data[from:])
	}
}

func TestAnEmptyFileIsFetched(t *testing.T) {
	m := newMirror(t)
	m.files[where] = nil
	m.faults[where] = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" { // as RFC 9110 requires; package http is more lenient
			w.Header().Set("Content-Range", "bytes */0")
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		}
	}
	f := hasty()
	body, err := f.open(t.Context(), m.URL+where, 0)
	require.NoError(t, err)
	defer body.Close()
	data, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Empty(t, data)
}

func TestAnInterruptIsAnErrorAndNoEndOfFile(t *testing.T) {
	stop := errors.New("stopped by the person")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	// No reader takes a piece, so that fetch can notice only the interruption.
	p := &pieces{fetcher: hasty(), begun: true, ahead: make(chan chan piece)}
	p.fetch(ctx, "http://127.0.0.1/unused", pieceSize, 2*pieceSize)
	_, err := p.Read(make([]byte, 1))
	require.ErrorIs(t, err, stop)
}
