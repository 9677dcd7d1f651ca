package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// digestHead is the first line of the text whose SHA-256 is a digest.
const digestHead = "eksnode-disk 1\n"

// Digest identifies the content of a disk in every format, as docs/design/digest.md
// specifies: the SHA-256 of a text that lists the blocks with other bytes than zeros,
// without free space. The result is "sha256:" and 64 hexadecimal digits.
func (d *Image) Digest(ctx context.Context, l *Layout) (string, error) {
	sums := make([]*[sha256.Size]byte, (d.size+BlockSize-1)/BlockSize)
	group, ctx := errgroup.WithContext(ctx)
	workers := runtime.GOMAXPROCS(0)
	for first := range workers {
		group.Go(func() error {
			block := make([]byte, BlockSize)
			for n := first; n < len(sums) && ctx.Err() == nil; n += workers {
				data, err := d.Block(l, int64(n), block)
				if err != nil {
					return err
				}
				if data {
					sum := sha256.Sum256(block)
					sums[n] = &sum
				}
			}
			return context.Cause(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return "", fmt.Errorf("computing the digest of the disk image %s: %w", d.path, err)
	}
	all := sha256.New()
	io.WriteString(all, digestHead)
	for n, sum := range sums {
		if sum != nil {
			fmt.Fprintf(all, "%d %x\n", n, *sum)
		}
	}
	return fmt.Sprintf("sha256:%x", all.Sum(nil)), nil
}

// Block reads a block of BlockSize bytes. Free space is zeros. The result says whether
// the block has other bytes than zeros.
func (d *Image) Block(l *Layout, n int64, into []byte) (data bool, err error) {
	at := n * BlockSize
	if d.Zero(at, BlockSize) || !l.Used(at, BlockSize) {
		clear(into)
		return false, nil
	}
	if _, err := d.ReadAt(into, at); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	l.ZeroFree(into, at)
	return !allZero(into), nil
}
