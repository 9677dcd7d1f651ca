package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine/aptmirror"
)

// lock takes an advisory lock that ends with the process. It waits for another
// holder until ctx ends.
func lock(ctx context.Context, path string, log io.Writer) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), file.Close())
		}
		if !told {
			told = true
			fmt.Fprintf(log, "waiting for another process that holds %s\n", path)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for %s: %w", path, ctx.Err()), file.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// serve serves the mirror on a loopback port for the duration of a build.
func serve(mirror *aptmirror.Mirror) (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("serving the mirror: %w", err)
	}
	server := &http.Server{Handler: mirror}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Serve returns ErrServerClosed when stopped; other errors reach the
		// client.
		_ = server.Serve(listener)
	}()
	return listener.Addr().String(), func() { server.Close(); <-done }, nil
}
