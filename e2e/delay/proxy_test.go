package delay

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Delays are lower bounds: a busy machine makes everything later, nothing
// makes it earlier.
const oneWay = 30 * time.Millisecond

// Several connections at once send and receive at once; every byte comes
// through, in order, and then the end.
func TestBytesComeThrough(t *testing.T) {
	for _, test := range []struct {
		name string
		link Link
		size int
	}{
		{"no delay", Link{}, 5 << 20},
		{"delay", Link{Delay: time.Millisecond}, 5 << 20},
		{"delay and narrow", Link{Delay: time.Millisecond, BytesPerSecond: 20e6}, 1 << 20},
		{"nothing but the end", Link{Delay: time.Millisecond}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			proxy := start(t, listen(t, func(conn *net.TCPConn) { io.Copy(conn, conn) }), test.link)
			var all sync.WaitGroup
			for i := range uint64(3) {
				all.Go(func() { exchange(t, proxy.Addr(), randomBytes(i, test.size)) })
			}
			all.Wait()
			assert.NoError(t, proxy.Close())
			assert.Equal(t, 3, proxy.Connections())
		})
	}
}

func TestNothingArrivesEarly(t *testing.T) {
	t.Run("the client speaks first", func(t *testing.T) {
		proxy := start(t, listen(t, func(conn *net.TCPConn) { io.Copy(conn, conn) }), Link{Delay: oneWay})
		begin := time.Now()
		conn := dial(t, proxy.Addr())
		echo(t, conn)
		assert.GreaterOrEqual(t, time.Since(begin), 4*oneWay, "a round trip for the handshake, one for the byte")
		begin = time.Now()
		echo(t, conn)
		assert.GreaterOrEqual(t, time.Since(begin), 2*oneWay, "a round trip for a byte on an open connection")
	})
	t.Run("the server speaks first", func(t *testing.T) {
		proxy := start(t, listen(t, func(conn *net.TCPConn) { conn.Write([]byte("S")) }), Link{Delay: oneWay})
		begin := time.Now()
		got := make([]byte, 1)
		_, err := io.ReadFull(dial(t, proxy.Addr()), got)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), 4*oneWay, "SYN, SYN-ACK, ACK, and then the banner")
	})
	t.Run("the end of all bytes", func(t *testing.T) {
		proxy := start(t, listen(t, func(conn *net.TCPConn) {}), Link{Delay: oneWay})
		begin := time.Now()
		_, err := io.ReadAll(dial(t, proxy.Addr()))
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begin), 4*oneWay)
	})
	t.Run("a narrow line", func(t *testing.T) {
		const size, perSecond = 100_000, 1_000_000
		proxy := start(t, listen(t, func(conn *net.TCPConn) { conn.Write(make([]byte, size)) }),
			Link{BytesPerSecond: perSecond})
		begin := time.Now()
		got, err := io.ReadAll(dial(t, proxy.Addr()))
		require.NoError(t, err)
		assert.Len(t, got, size)
		assert.GreaterOrEqual(t, time.Since(begin), size*time.Second/perSecond)
	})
}

func TestUnreachableTarget(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	target := gone.Addr().String()
	require.NoError(t, gone.Close())

	proxy := start(t, target, Link{Delay: time.Millisecond})
	_, err = io.ReadAll(dial(t, proxy.Addr()))
	require.Error(t, err, "the client must not take it for an empty answer")
	require.ErrorContains(t, proxy.Close(), "connecting to "+target+" behind the delaying proxy: ")
}

// A connection that its server breaks must not look finished to the client.
func TestResetComesThrough(t *testing.T) {
	target := listen(t, func(conn *net.TCPConn) {
		conn.Write([]byte("half"))
		// Reading first makes sure that the half has gone out.
		io.ReadFull(conn, make([]byte, 1))
		conn.SetLinger(0)
	})
	proxy := start(t, target, Link{Delay: time.Millisecond})
	conn := dial(t, proxy.Addr())
	half := make([]byte, 4)
	_, err := io.ReadFull(conn, half)
	require.NoError(t, err)
	_, err = conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(half)
	require.Error(t, err)
	assert.NotErrorIs(t, err, io.EOF)
	assert.NoError(t, proxy.Close())
}

func TestCloseEndsOpenConnections(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(proxy *Proxy, cancel func())
	}{
		{"Close", func(proxy *Proxy, _ func()) { assert.NoError(t, proxy.Close()) }},
		{"the context", func(_ *Proxy, cancel func()) { cancel() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			target := listen(t, func(conn *net.TCPConn) { io.Copy(conn, conn) })
			proxy, err := Start(ctx, "127.0.0.1:0", target, Link{Delay: time.Millisecond})
			require.NoError(t, err)
			conn := dial(t, proxy.Addr())
			echo(t, conn)
			test.end(proxy, cancel)
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err)
			require.NoError(t, proxy.Close())
			_, err = net.Dial("tcp", proxy.Addr())
			require.Error(t, err)
		})
	}
}

func TestStartRefuses(t *testing.T) {
	_, err := Start(t.Context(), "127.0.0.1:0", "127.0.0.1:1", Link{Delay: -time.Second})
	require.EqualError(t, err, "starting the delaying proxy: delay -1s and bytes per second 0 must not be negative")
	_, err = Start(t.Context(), "nowhere", "127.0.0.1:1", Link{})
	require.ErrorContains(t, err, "starting the delaying proxy: listen tcp: address nowhere")
}

// listen serves each connection with the function and answers the address.
func listen(t *testing.T, serve func(conn *net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return listener.Addr().String()
}

func start(t *testing.T, target string, link Link) *Proxy {
	t.Helper()
	proxy, err := Start(t.Context(), "127.0.0.1:0", target, link)
	require.NoError(t, err)
	t.Cleanup(func() { proxy.Close() })
	return proxy
}

func dial(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn.(*net.TCPConn)
}

func echo(t *testing.T, conn *net.TCPConn) {
	t.Helper()
	_, err := conn.Write([]byte("E"))
	require.NoError(t, err)
	got := make([]byte, 1)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.Equal(t, "E", string(got))
}

func exchange(t *testing.T, address string, data []byte) {
	conn := dial(t, address)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := conn.Write(data)
		assert.NoError(t, err)
		assert.NoError(t, conn.CloseWrite())
	})
	got, err := io.ReadAll(conn)
	all.Wait()
	assert.NoError(t, err)
	assert.Equal(t, sha256.Sum256(data), sha256.Sum256(got), "%d bytes of %d", len(got), len(data))
}

func randomBytes(seed uint64, size int) []byte {
	source := rand.New(rand.NewPCG(seed, 0))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(source.Uint32())
	}
	return data
}
