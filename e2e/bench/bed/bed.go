package bed

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/delay"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// Bed is an open lab. Close it.
type Bed struct {
	lab     *machine.Lab
	root    string
	key     machine.Key
	link    delay.Link
	log     io.Writer
	closers []func() error
}

// Open prepares the base system and opens the lab; it needs root. Every line
// of the bed is like link.
func Open(ctx context.Context, link delay.Link, log io.Writer) (*Bed, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("opening the bed: machines need root; run it by make bench, which uses sudo")
	}
	lab, root, err := machine.Open(ctx, log, machine.Nspawn)
	if err != nil {
		return nil, err
	}
	key, err := machine.NewKey("bench@eksnode.test")
	if err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	return &Bed{lab: lab, root: root, key: key, link: link, log: log, closers: []func() error{lab.Close}}, nil
}

// Close ends everything in the bed.
func (b *Bed) Close() error {
	var errs []error
	for len(b.closers) > 0 {
		last := len(b.closers) - 1
		errs = append(errs, b.closers[last]())
		b.closers = b.closers[:last]
	}
	return errors.Join(errs...)
}

// Mirror serves a folder to the machines over a line like the bed's, on which
// each connection carries so many bytes per second; 0 for no limit. It answers
// the mirror's address.
func (b *Bed) Mirror(ctx context.Context, folder string, bytesPerSecond int64) (string, error) {
	server, err := mirror.Serve(ctx, "127.0.0.1:0", folder, mirror.Options{})
	if err != nil {
		return "", err
	}
	b.closers = append(b.closers, server.Close)
	link := b.link
	link.BytesPerSecond = bytesPerSecond
	proxy, err := delay.Start(ctx, "127.0.0.1:0", strings.TrimPrefix(server.URL(), "http://"), link)
	if err != nil {
		return "", err
	}
	b.closers = append(b.closers, proxy.Close)
	// The proxy listens outside the lab.
	listener, err := b.lab.Listen(ctx, "tcp", net.JoinHostPort(b.lab.HostAddress(), "0"))
	if err != nil {
		return "", err
	}
	entrance := forward(ctx, listener, func(ctx context.Context) (net.Conn, error) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", proxy.Addr())
	})
	b.closers = append(b.closers, entrance.close)
	return "http://" + listener.Addr().String(), nil
}
