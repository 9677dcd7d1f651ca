package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
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
	s, err := a.Snapshot(ctx, id)
	if err != nil {
		return nil, err
	}
	if s.State != awsapi.SnapshotCompleted {
		return nil, fmt.Errorf("reading the snapshot %s: its state is %s, but only a completed snapshot can be read", id, s.State)
	}
	run, err := d.open(a, s, path)
	if err != nil {
		return nil, err
	}
	err = run.blocks(ctx)
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
		return nil, errors.Join(fmt.Errorf("downloading the snapshot %s: %w", id, err), run.journal.close(false))
	}
	return run.journal.done, run.journal.close(true)
}

// download is a running download.
type download struct {
	Download
	fetch
	file       *os.File
	journal    *journal
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
	return &download{Download: d, fetch: newFetch(a, s.ID, d.Connections, d.Rate), file: f, journal: j}, nil
}

// blocks reads the blocks that the file lacks.
func (d *download) blocks(ctx context.Context) error {
	end, last := int64(0), int32(-1)
	err := d.aws.BlockPages(ctx, d.id, 0, func(page []awsapi.Block) error {
		d.total += len(page)
		last = page[len(page)-1].Index
		return nil
	})
	if err != nil {
		return err
	}
	if st, err := d.file.Stat(); err == nil {
		end = st.Size()
	}
	if (int64(last)+1)*BlockSize > end {
		return fmt.Errorf("the block %d is outside of the volume of %d bytes", last, end)
	}
	return d.each(ctx, func(int32) bool { return true }, d.block)
}

var zeros = make([]byte, BlockSize)

// block reads a block into the file, unless the file has it.
func (d *download) block(ctx context.Context, b awsapi.Block, data []byte) error {
	if !d.has(b.Index, data) {
		sum, err := d.get(ctx, b, data)
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
