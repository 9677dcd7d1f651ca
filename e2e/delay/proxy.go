package delay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Proxy passes the connections that it accepts on to one target.
type Proxy struct {
	listener net.Listener
	target   string
	link     Link
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mutex     sync.Mutex
	failed    error
	connected int
}

// Start listens at the address addr ("127.0.0.1:0" for any free port) and
// passes connections on to the address target over the link, until the
// context is done or Close is called.
func Start(ctx context.Context, addr, target string, link Link) (*Proxy, error) {
	if link.Delay < 0 || link.BytesPerSecond < 0 {
		return nil, fmt.Errorf("starting the delaying proxy: delay %v and bytes per second %d must not be negative",
			link.Delay, link.BytesPerSecond)
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("starting the delaying proxy: %w", err)
	}
	p := &Proxy{listener: listener, target: target, link: link}
	p.ctx, p.cancel = context.WithCancel(ctx)
	context.AfterFunc(p.ctx, func() { listener.Close() })
	p.running.Go(p.accept)
	return p, nil
}

// Addr answers the address to connect to, HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Connections answers how many connections have been accepted.
func (p *Proxy) Connections() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.connected
}

// Close ends the proxy and its connections and answers what went wrong: that
// the target could not be reached, for one. Connections that a peer reset are
// nothing wrong.
func (p *Proxy) Close() error {
	p.cancel()
	p.running.Wait()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.failed
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if p.ctx.Err() == nil {
				p.fail(fmt.Errorf("accepting a connection: %w", err))
			}
			return
		}
		p.mutex.Lock()
		p.connected++
		p.mutex.Unlock()
		p.running.Go(func() { p.relay(conn.(*net.TCPConn)) })
	}
}

func (p *Proxy) fail(err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.failed = errors.Join(p.failed, err)
}

// relay carries one connection. The kernel has completed the client's
// handshake at once, so the handshake's travels are made up for here: a client
// sends from the second one on, and the server knows of it after the third.
func (p *Proxy) relay(client *net.TCPConn) {
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { reset(client) })()
	if !wait(ctx, time.Now().Add(2*p.link.Delay)) {
		return
	}
	there, back := p.direction(), p.direction()
	defer context.AfterFunc(ctx, func() { there.queue.close(); back.queue.close() })()
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { there.send(client) })
	server, err := p.dial(ctx, time.Now().Add(p.link.Delay))
	if err != nil {
		if ctx.Err() == nil {
			p.fail(err)
		}
		cancel()
		return
	}
	defer context.AfterFunc(ctx, func() { reset(server) })()
	all.Go(func() { back.send(server) })
	var arriving sync.WaitGroup
	arriving.Go(func() { there.receive(ctx, server, cancel) })
	arriving.Go(func() { back.receive(ctx, client, cancel) })
	arriving.Wait()
	if ctx.Err() == nil {
		// Both ends were orderly: what is written must not be lost to a reset.
		client.Close()
		server.Close()
	}
}

func (p *Proxy) dial(ctx context.Context, at time.Time) (*net.TCPConn, error) {
	if !wait(ctx, at) {
		return nil, context.Cause(ctx)
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s behind the delaying proxy: %w", p.target, err)
	}
	return conn.(*net.TCPConn), nil
}

func (p *Proxy) direction() *direction {
	return &direction{link: p.link, queue: newQueue(p.link.window())}
}

// direction is half a connection.
type direction struct {
	link  Link
	queue *queue
	free  time.Time // when the line has taken all that was sent
}

// send puts what comes from the connection on the line, until it ends.
func (d *direction) send(from io.Reader) {
	buffer := make([]byte, d.link.chunk())
	for {
		n, err := from.Read(buffer)
		if now := time.Now(); d.free.Before(now) {
			d.free = now
		}
		d.free = d.free.Add(d.link.carrying(n))
		due := d.free.Add(d.link.Delay)
		if n > 0 && !d.queue.push(parcel{data: append([]byte(nil), buffer[:n]...), due: due}) {
			return
		}
		if err != nil {
			d.queue.push(parcel{end: err, due: due})
			return
		}
	}
}

// halfCloser is what the receiving end must be able to do.
type halfCloser interface {
	io.Writer
	CloseWrite() error
}

// receive hands what has travelled long enough to the connection, until the
// orderly end of all bytes. Any other end, and a connection that takes no
// more, breaks both directions.
func (d *direction) receive(ctx context.Context, to halfCloser, breakOff func()) {
	for {
		one, ok := d.queue.pop()
		if !ok || !wait(ctx, one.due) {
			return
		}
		if errors.Is(one.end, io.EOF) {
			if to.CloseWrite() != nil {
				breakOff()
			}
			return
		}
		if one.end != nil {
			breakOff()
			return
		}
		if _, err := to.Write(one.data); err != nil {
			breakOff()
			return
		}
		d.queue.arrived(len(one.data))
	}
}

// wait waits until the given time; false means that the context ended first.
func wait(ctx context.Context, until time.Time) bool {
	left := time.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// reset ends a connection so that its peer sees it broken, not finished.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails only on a connection that is closed already
	conn.Close()
}
