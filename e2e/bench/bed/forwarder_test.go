package bed

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// upperCase answers what it is sent, once all has come, and says who sent it.
func upperCase(t *testing.T) (address string, callers chan int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	callers = make(chan int, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			callers <- conn.RemoteAddr().(*net.TCPAddr).Port
			text, _ := io.ReadAll(conn)
			_, _ = conn.Write(append([]byte("got "), text...))
			conn.Close()
		}
	}()
	return listener.Addr().String(), callers
}

func TestForward(t *testing.T) {
	address, callers := upperCase(t)
	near, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := forward(t.Context(), near, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	})
	var ports []int
	for range 2 {
		conn, err := net.Dial("tcp", near.Addr().String())
		require.NoError(t, err)
		_, err = conn.Write([]byte("a question"))
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).CloseWrite())
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		assert.Equal(t, "got a question", string(answer))
		ports = append(ports, <-callers)
	}
	assert.Equal(t, ports, f.dialled())
	require.NoError(t, f.close())
	_, err = net.Dial("tcp", near.Addr().String())
	require.Error(t, err)
}

func TestForwardSaysWhatItCouldNotReach(t *testing.T) {
	near, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := forward(t.Context(), near, func(context.Context) (net.Conn, error) { return nil, errors.New("no way there") })
	conn, err := net.Dial("tcp", near.Addr().String())
	require.NoError(t, err)
	_, err = io.ReadAll(conn)
	require.NoError(t, err, "the connection is ended")
	require.EqualError(t, f.close(), "no way there")
}

// Closing must not wait for a peer that says nothing.
func TestForwardClosesWhatIsUnderWay(t *testing.T) {
	address, callers := upperCase(t)
	near, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f := forward(t.Context(), near, func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", address)
	})
	conn, err := net.Dial("tcp", near.Addr().String())
	require.NoError(t, err)
	<-callers
	require.NoError(t, f.close())
	_, err = io.ReadAll(conn)
	assert.NotErrorIs(t, err, io.ErrUnexpectedEOF)
}
