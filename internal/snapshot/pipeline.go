package snapshot

import (
	"context"
	"crypto/sha256"
	"sync"

	"golang.org/x/sync/errgroup"
)

// pipeline reads blocks with a few readers and sends them over many connections: a
// read needs a processor, and a call waits for the network.
type pipeline struct {
	*upload
	id   string
	next chan int32
	full chan block
	// empty are the buffers. A nil is a buffer that is not allocated yet.
	empty chan []byte
}

type block struct {
	index int32
	sum   Sum
	data  []byte
}

// blocks sends the blocks that the snapshot lacks.
func (u *upload) blocks(ctx context.Context, id string) error {
	buffers := u.Readers + u.Connections
	p := &pipeline{u, id, make(chan int32), make(chan block), make(chan []byte, buffers)}
	for range buffers {
		p.empty <- nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(p.next)
		for _, index := range u.source.Blocks {
			select {
			case p.next <- index:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	var reading sync.WaitGroup
	reading.Add(u.Readers)
	for range u.Readers {
		group.Go(func() error {
			defer reading.Done()
			return p.read(ctx)
		})
	}
	group.Go(func() error {
		reading.Wait()
		close(p.full)
		return nil
	})
	for range u.Connections {
		group.Go(func() error { return p.send(ctx) })
	}
	return group.Wait()
}

// read reads blocks until there are no more.
func (p *pipeline) read(ctx context.Context) error {
	for index := range p.next {
		var data []byte
		select {
		case data = <-p.empty:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if data == nil {
			data = make([]byte, BlockSize)
		}
		if err := p.readBlock(index, data); err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		if p.has(index, sum) {
			p.empty <- data
			continue
		}
		select {
		case p.full <- block{index, sum, data}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// send sends blocks until there are no more.
func (p *pipeline) send(ctx context.Context) error {
	for b := range p.full {
		if err := p.pace.Wait(ctx); err != nil {
			return err
		}
		if err := p.aws.PutBlock(ctx, p.id, b.index, b.data, b.sum, p.journal.head.Started); err != nil {
			return err
		}
		if err := p.journal.add(b.index, b.sum); err != nil {
			return err
		}
		p.sent.Add(1)
		p.note(b.index, b.sum)
		p.empty <- b.data
	}
	return nil
}
