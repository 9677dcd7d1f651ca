package mirror

import (
	"net"
	"time"
)

// pacedListener limits the bandwidth of each of its connections.
type pacedListener struct {
	net.Listener
	bytesPerSecond int64
}

func (l pacedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &pacedConn{Conn: conn, bytesPerSecond: l.bytesPerSecond}, nil
}

// pacedConn writes no faster than bytesPerSecond, on average since the last
// pause. It hides the connection's ReadFrom, through which the HTTP server
// would pass whole files to the kernel.
type pacedConn struct {
	net.Conn
	bytesPerSecond int64
	free           time.Time // when the line has sent all bytes
}

// Write is called by one goroutine at a time, as the HTTP server does.
func (c *pacedConn) Write(data []byte) (int, error) {
	// Write in steps of a tenth of a second, so that the rate is steady and a
	// closed connection is noticed.
	chunk := int(max(c.bytesPerSecond/10, 1))
	written := 0
	for written < len(data) {
		time.Sleep(time.Until(c.free))
		n, err := c.Conn.Write(data[written:min(written+chunk, len(data))])
		written += n
		if err != nil {
			return written, err
		}
		if now := time.Now(); c.free.Before(now) {
			c.free = now
		}
		c.free = c.free.Add(time.Duration(float64(n) / float64(c.bytesPerSecond) * float64(time.Second)))
	}
	return written, nil
}
