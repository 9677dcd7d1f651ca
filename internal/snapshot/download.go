package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/human"
)

// Download says how to read a snapshot into a file. Zero values of numbers mean the
// defaults.
type Download struct {
	// Connections is the number of calls at the same time; the default is 32.
	Connections int
	// Rate is the number of blocks each second; the default is 900, below the quota of
	// 1,000.
	Rate float64
	// Progress is called after each block, possibly concurrently. It may be nil.
	Progress func(Progress)
}

// Run reads a snapshot into a sparse file of the volume's size, and returns the
// checksums of its blocks. The file path.part and a journal path.journal hold what is
// read; the file gets its name at the end. After a failure they stay, and the next
// download goes on with them. Blocks that the snapshot lacks read as zeros.
func (d Download) Run(ctx context.Context, a *awsapi.AWS, id, path string) (Sums, error) {
	d.Connections, d.Rate = cmp.Or(d.Connections, defaultConnections), cmp.Or(d.Rate, defaultRate)
	s, err := a.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.Readable(a.Region); err != nil {
		return nil, err
	}
	list, err := a.Blocks(ctx, id)
	if err != nil {
		return nil, refused(ctx, a, s, err)
	}
	run, err := d.open(a, s, path)
	if err != nil {
		return nil, err
	}
	if err = run.room(filepath.Dir(path), list); err == nil {
		err = run.blocks(ctx, list)
	}
	if err == nil {
		err = run.file.Sync()
	}
	if closing := run.file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, errors.Join(fmt.Errorf("downloading the snapshot %s: %w", id, refused(ctx, a, s, err)), run.abandon(path+".part"))
	}
	return run.journal.done, run.journal.close(true)
}

// refused adds to a refusal of AWS what to do about the snapshot.
func refused(ctx context.Context, a *awsapi.AWS, s awsapi.Snapshot, err error) error {
	account, unknown := a.Account(ctx)
	if unknown != nil {
		account = "" // err matters more
	}
	return awsapi.RefusedSnapshot(err, s, a.Region, account)
}

// download is a running download.
type download struct {
	Download
	aws     *awsapi.AWS
	id      string
	file    *os.File
	journal *journal
	pace    *rate.Limiter
	read    atomic.Int32
	sent    atomic.Int32
}

// open opens the files of an interrupted download, or makes new ones.
func (d Download) open(a *awsapi.AWS, s awsapi.Snapshot, path string) (*download, error) {
	j, _, err := openJournal(path+".journal", head{Source: s.ID, Region: a.Region, Settings: "download"})
	if err != nil {
		return nil, err
	}
	flags := os.O_RDWR | os.O_CREATE
	if j.head.Token == "" {
		flags |= os.O_TRUNC
		if err := j.begin(time.Now()); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(path+".part", flags, 0o600)
	if err == nil {
		err = f.Truncate(s.Size << 30)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("downloading the snapshot %s: %w", s.ID, err), j.close(false))
	}
	return &download{Download: d, aws: a, id: s.ID, file: f, journal: j, pace: rate.NewLimiter(rate.Limit(d.Rate), d.Connections)}, nil
}

// room returns an error when the folder has too little space for the blocks that the
// file lacks.
func (d *download) room(folder string, list []awsapi.Block) error {
	missing := int64(0)
	for _, b := range list {
		if _, noted := d.journal.before(b.Index); !noted {
			missing += BlockSize
		}
	}
	free, known := freeSpace(folder)
	if known && free < missing {
		return fmt.Errorf("the folder %s has %s free, but %s are still to be read: %w", folder, human.Size(free), human.Size(missing), syscall.ENOSPC)
	}
	return nil
}

// abandon closes the journal. Without a block, there is nothing for another download to
// go on with.
func (d *download) abandon(part string) error {
	if len(d.journal.done) > 0 {
		return d.journal.close(false)
	}
	return errors.Join(d.journal.close(true), os.Remove(part))
}

// blocks reads the blocks that the file lacks.
func (d *download) blocks(ctx context.Context, list []awsapi.Block) error {
	group, ctx := errgroup.WithContext(ctx)
	next := make(chan awsapi.Block)
	group.Go(func() error {
		defer close(next)
		for _, b := range list {
			select {
			case next <- b:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range d.Connections {
		group.Go(func() error {
			data := make([]byte, BlockSize)
			for b := range next {
				if err := d.block(ctx, b, data); err != nil {
					return err
				}
				read := int(d.read.Add(1))
				if d.Progress != nil {
					d.Progress(Progress{Read: read, Total: len(list), Sent: int(d.sent.Load())})
				}
			}
			return nil
		})
	}
	return group.Wait()
}

var zeros = make([]byte, BlockSize)

// block reads a block into the file, unless the file has it.
func (d *download) block(ctx context.Context, b awsapi.Block, data []byte) error {
	if d.has(b.Index, data) {
		return nil
	}
	if err := d.pace.Wait(ctx); err != nil {
		return err
	}
	sum, err := d.aws.GetBlock(ctx, d.id, b.Index, b.Token, data)
	if err != nil {
		return err
	}
	d.sent.Add(1)
	// A hole reads as zeros. In a file of an interrupted download, the place may have
	// other content.
	if _, before := d.journal.before(b.Index); before || !bytes.Equal(data, zeros) {
		if _, err := d.file.WriteAt(data, int64(b.Index)*BlockSize); err != nil {
			return err
		}
	}
	d.journal.add(b.Index, sum)
	return nil
}

// has says whether the file has a block that an interrupted download read.
func (d *download) has(index int32, data []byte) bool {
	want, noted := d.journal.before(index)
	if !noted {
		return false
	}
	if _, err := d.file.ReadAt(data, int64(index)*BlockSize); err != nil {
		return false
	}
	return sha256.Sum256(data) == want
}

// ReadSums reads the checksums of some blocks of a snapshot. AWS tells a checksum only
// with its block, so this reads the blocks.
func ReadSums(ctx context.Context, a *awsapi.AWS, id string, blocks []int32) (Sums, error) {
	list, err := a.Blocks(ctx, id)
	if err != nil {
		return nil, err
	}
	wanted := map[int32]bool{}
	for _, index := range blocks {
		wanted[index] = true
	}
	list = slices.DeleteFunc(list, func(b awsapi.Block) bool { return !wanted[b.Index] })
	sums, mutex := Sums{}, sync.Mutex{}
	pace := rate.NewLimiter(defaultRate, defaultConnections)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(defaultConnections)
	for _, b := range list {
		group.Go(func() error {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
			sum, err := a.GetBlock(ctx, id, b.Index, b.Token, make([]byte, BlockSize))
			mutex.Lock()
			defer mutex.Unlock()
			sums[b.Index] = sum
			return err
		})
	}
	return sums, group.Wait()
}
