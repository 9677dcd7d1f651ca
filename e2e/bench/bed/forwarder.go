package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// forwarder passes connections on between the lab and what is outside of it,
// as fast as the machine does.
type forwarder struct {
	listener net.Listener
	dial     func(context.Context) (net.Conn, error)
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mutex  sync.Mutex
	ports  []int // local ones of the connections dialled
	failed error
}

// forward serves the listener, which it closes with close or with ctx.
func forward(ctx context.Context, listener net.Listener, dial func(context.Context) (net.Conn, error)) *forwarder {
	f := &forwarder{listener: listener, dial: dial}
	f.ctx, f.cancel = context.WithCancel(ctx)
	context.AfterFunc(f.ctx, func() { listener.Close() })
	f.running.Go(f.accept)
	return f
}

func (f *forwarder) accept() {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			if f.ctx.Err() == nil {
				f.fail(fmt.Errorf("accepting a connection: %w", err))
			}
			return
		}
		f.running.Go(func() { f.pass(near) })
	}
}

// pass carries one connection until one end breaks or both are done.
func (f *forwarder) pass(near net.Conn) {
	defer near.Close()
	far, err := f.dial(f.ctx)
	if err != nil {
		if f.ctx.Err() == nil {
			f.fail(err)
		}
		return
	}
	defer far.Close()
	defer context.AfterFunc(f.ctx, func() { near.Close(); far.Close() })()
	if at, ok := far.LocalAddr().(*net.TCPAddr); ok {
		f.mutex.Lock()
		f.ports = append(f.ports, at.Port)
		f.mutex.Unlock()
	}
	var both sync.WaitGroup
	both.Go(func() { copyHalf(far, near) })
	both.Go(func() { copyHalf(near, far) })
	both.Wait()
}

// copyHalf carries one direction. An orderly end is handed on; after any other
// both ends are closed, so that the other direction ends too.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil && half.CloseWrite() == nil {
		return
	}
	to.Close()
	from.Close()
}

func (f *forwarder) fail(err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.failed = errors.Join(f.failed, err)
}

// dialled lists the local ports of the connections that were passed on.
func (f *forwarder) dialled() []int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return append([]int(nil), f.ports...)
}

// close ends all connections and says which could not be made.
func (f *forwarder) close() error {
	f.cancel()
	f.running.Wait()
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.failed
}
