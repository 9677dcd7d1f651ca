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

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// fetch reads blocks of a snapshot over many connections.
type fetch struct {
	aws *awsapi.AWS
	id  string
	// connections is the number of calls at the same time.
	connections int
}

// relists is how often the tokens of blocks may be stale before any block is read with
// the newest ones.
const relists = 5

// each calls a function for each wanted block, concurrently and with a buffer. After the
// tokens of the blocks have expired, or another program has listed the snapshot, it
// lists the snapshot again from the first block that is missing.
func (f *fetch) each(ctx context.Context, wanted func(int32) bool,
	do func(context.Context, awsapi.Block, []byte) error) error {
	from := int32(0)
	for again := 0; ; again++ {
		err := f.aws.BlockPages(ctx, f.id, from, func(page []awsapi.Block) error {
			page = slices.DeleteFunc(page, func(b awsapi.Block) bool { return !wanted(b.Index) })
			done := make([]bool, len(page))
			err := eachOf(ctx, len(page), f.connections, func(ctx context.Context, i int, buffer []byte) error {
				err := do(ctx, page[i], buffer)
				done[i] = err == nil
				return err
			})
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

// ReadSums reads the checksums of some blocks of a snapshot. AWS tells a checksum only
// with its block, so this reads the blocks.
func ReadSums(ctx context.Context, a *awsapi.AWS, id string, blocks []int32) (Sums, error) {
	f, sums, mutex := fetch{a, id, defaultConnections}, Sums{}, sync.Mutex{}
	chosen := map[int32]bool{}
	for _, index := range blocks {
		chosen[index] = true
	}
	wanted := func(index int32) bool { return chosen[index] }
	err := f.each(ctx, wanted, func(ctx context.Context, b awsapi.Block, data []byte) error {
		sum, err := a.GetBlock(ctx, id, b.Index, b.Token, data)
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

// Download says how to read a snapshot into a file.
type Download struct {
	// Connections is the number of calls at the same time; the default is 32.
	Connections int
	// Progress is called after each block, possibly concurrently. It may be nil.
	Progress func(Progress)
}

// Run reads a snapshot into a sparse file of the volume's size, and returns the
// checksums of its blocks. The file path.part and a journal path.journal hold what is
// read; the file gets its name at the end. After a failure they stay if they have a
// block, and the next download goes on with them. Blocks that the snapshot lacks read as zeros.
func (d Download) Run(ctx context.Context, a *awsapi.AWS, id, path string) (Sums, error) {
	return d.run(ctx, a, id, path, func(*download) error { return nil })
}

// run is Run with a function that may write blocks before any is read.
func (d Download) run(ctx context.Context, a *awsapi.AWS, id, path string, before func(*download) error) (Sums, error) {
	s, err := a.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := s.Readable(a.Region); err != nil {
		return nil, err
	}
	run, err := d.open(a, s, path)
	if err != nil {
		return nil, err
	}
	if err = before(run); err == nil {
		err = run.blocks(ctx)
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
		return nil, errors.Join(fmt.Errorf("downloading the snapshot %s: %w", id, refused(ctx, a, s, err)),
			run.abandon())
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

type download struct {
	Download
	fetch
	file    *os.File
	journal *journal
	// inherited are the blocks that the file has from another snapshot.
	inherited  Sums
	total      int
	read, sent atomic.Int32
}

// open opens the files of an interrupted download, or makes new ones.
func (d Download) open(a *awsapi.AWS, s awsapi.Snapshot, path string) (*download, error) {
	j, _, err := openJournal(path+".journal", head{Source: s.ID, Region: a.Region, Settings: "download"})
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path+".part", os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil && j.head.Token == "" {
		// The file must be empty before the journal says so: blocks of zeros are not
		// written.
		err = errors.Join(f.Truncate(0), f.Sync())
		if err == nil {
			err = j.begin(time.Now())
		}
	}
	if err == nil {
		err = f.Truncate(s.Size << 30)
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, errors.Join(fmt.Errorf("downloading the snapshot %s: %w", s.ID, err), j.close(false))
	}
	return &download{Download: d, fetch: fetch{a, s.ID, cmp.Or(d.Connections, defaultConnections)},
		file: f, journal: j}, nil
}

// room returns an error when the folder has less space than the missing blocks need.
func (d *download) room(missing int64) error {
	folder := filepath.Dir(d.file.Name())
	free, known := freeSpace(folder)
	if known && free < missing*BlockSize {
		return fmt.Errorf("the folder %s has %s free, but %s are still to be read: %w", folder, show.Size(free),
			show.Size(missing*BlockSize), syscall.ENOSPC)
	}
	return nil
}

// abandon closes the journal. Without a block, there is nothing for another download to
// go on with.
func (d *download) abandon() error {
	if len(d.journal.done) > 0 {
		return d.journal.close(false)
	}
	return errors.Join(os.Remove(d.file.Name()), d.journal.close(true))
}

// blocks reads the blocks that the file lacks.
func (d *download) blocks(ctx context.Context) error {
	end, last, missing := int64(0), int32(-1), int64(0)
	err := d.aws.BlockPages(ctx, d.id, 0, func(page []awsapi.Block) error {
		last = page[len(page)-1].Index
		for _, b := range page {
			if !d.wanted(b.Index) {
				continue
			}
			d.total++
			if _, noted := d.journal.before(b.Index); !noted {
				missing++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := d.room(missing); err != nil {
		return err
	}
	if st, err := d.file.Stat(); err == nil {
		end = st.Size()
	}
	if (int64(last)+1)*BlockSize > end {
		return fmt.Errorf("the block %d is outside of the volume of %d bytes", last, end)
	}
	return d.each(ctx, d.wanted, d.block)
}

func (d *download) wanted(index int32) bool {
	_, has := d.inherited[index]
	return !has
}

var zeros = make([]byte, BlockSize)

// block reads a block into the file, unless the file has it.
func (d *download) block(ctx context.Context, b awsapi.Block, data []byte) error {
	if !d.has(b.Index, data) {
		sum, err := d.aws.GetBlock(ctx, d.id, b.Index, b.Token, data)
		if err != nil {
			return err
		}
		d.sent.Add(1)
		// A hole reads as zeros. In a file of an interrupted download, the place may
		// have other content.
		if _, before := d.journal.before(b.Index); before || !bytes.Equal(data, zeros) {
			if _, err := d.file.WriteAt(data, int64(b.Index)*BlockSize); err != nil {
				return err
			}
		}
		if err := d.journal.add(b.Index, sum); err != nil {
			return err
		}
	}
	read := int(d.read.Add(1))
	if d.Progress != nil {
		d.Progress(Progress{Read: min(read, d.total), Total: d.total, Sent: int(d.sent.Load())})
	}
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
