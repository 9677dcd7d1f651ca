package snapshot

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// fetch reads blocks of a snapshot over many connections.
type fetch struct {
	aws  *awsapi.AWS
	id   string
	pace *rate.Limiter
	// buffers has one for each connection.
	buffers [][]byte
}

func newFetch(a *awsapi.AWS, id string, connections int, perSecond float64) fetch {
	f := fetch{a, id, rate.NewLimiter(rate.Limit(cmp.Or(perSecond, defaultRate)), 1), make([][]byte, cmp.Or(connections, defaultConnections))}
	for i := range f.buffers {
		f.buffers[i] = make([]byte, BlockSize)
	}
	return f
}

// get reads a block into a buffer.
func (f *fetch) get(ctx context.Context, b awsapi.Block, into []byte) (Sum, error) {
	if err := f.pace.Wait(ctx); err != nil {
		return Sum{}, err
	}
	return f.aws.GetBlock(ctx, f.id, b.Index, b.Token, into)
}

// relists is how often the tokens of blocks may be stale before any block is read with
// the newest ones.
const relists = 5

// each calls a function for each wanted block, concurrently and with a buffer. After the
// tokens of the blocks have expired, or another program has listed the snapshot, it
// lists the snapshot again from the first block that is missing.
func (f *fetch) each(ctx context.Context, wanted func(int32) bool, do func(context.Context, awsapi.Block, []byte) error) error {
	from := int32(0)
	for again := 0; ; again++ {
		err := f.aws.BlockPages(ctx, f.id, from, func(page []awsapi.Block) error {
			page = slices.DeleteFunc(page, func(b awsapi.Block) bool { return !wanted(b.Index) })
			done, err := f.page(ctx, page, do)
			if slices.Contains(done, true) {
				again = 0
			}
			if first := slices.Index(done, false); first >= 0 {
				from = page[first].Index
			}
			return err
		})
		if !awsapi.IsStaleToken(err) || again == relists {
			return err
		}
	}
}

// page calls the function for each block of a page. It returns which blocks are done.
func (f *fetch) page(ctx context.Context, page []awsapi.Block, do func(context.Context, awsapi.Block, []byte) error) ([]bool, error) {
	done := make([]bool, len(page))
	next := atomic.Int32{}
	group, ctx := errgroup.WithContext(ctx)
	for _, buffer := range f.buffers {
		group.Go(func() error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(page) {
					return nil
				}
				if err := do(ctx, page[i], buffer); err != nil {
					return err
				}
				done[i] = true
			}
			return context.Cause(ctx)
		})
	}
	return done, group.Wait()
}

// ReadSums reads the checksums of some blocks of a snapshot. AWS tells a checksum only
// with its block, so this reads the blocks.
func ReadSums(ctx context.Context, a *awsapi.AWS, id string, blocks []int32) (Sums, error) {
	f, sums, mutex := newFetch(a, id, 0, 0), Sums{}, sync.Mutex{}
	chosen := map[int32]bool{}
	for _, index := range blocks {
		chosen[index] = true
	}
	err := f.each(ctx, func(index int32) bool { return chosen[index] }, func(ctx context.Context, b awsapi.Block, data []byte) error {
		sum, err := f.get(ctx, b, data)
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		sums[b.Index] = sum
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sums, nil
}
