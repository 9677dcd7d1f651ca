package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Source is a disk to upload.
type Source struct {
	// Identity changes when the disk changes, such as its path, size and time.
	Identity string
	// Size is the size of the volume, in GiB.
	Size int64
	// Blocks are the blocks that travel, in order.
	Blocks []int32
	// Read reads a block into a buffer of BlockSize bytes. It may be called
	// concurrently.
	Read func(index int32, into []byte) error
	// Check returns an error when the disk has changed since it was opened.
	Check func() error
}

// Upload says how to upload a disk. Zero values of numbers mean the defaults.
type Upload struct {
	Description string
	Tags        map[string]string
	// Encrypted encrypts the snapshot with Key, the ARN of a KMS key. An empty Key is
	// the account's default key.
	Encrypted bool
	Key       string
	// Parent is the ID of a snapshot with blocks that need not travel, and
	// ParentSums are its checksums.
	Parent     string
	ParentSums Sums
	// Journal is the path of the file that lets an interrupted upload go on.
	Journal string
	// LeaveJournal leaves the journal of a completed upload to the caller: the same
	// upload again finds the completed snapshot.
	LeaveJournal bool
	// Keep keeps the pending snapshot and the journal after a failure.
	Keep bool
	// Timeout is how long an interrupted upload can go on, from 10 minutes to 3 days;
	// the default is 1 hour.
	Timeout time.Duration
	// Readers is the number of blocks that are read at the same time, and
	// Connections the number of calls; the defaults are 4 and 32.
	Readers, Connections int
	// Rate is the number of blocks each second; the default is 900, below the quota of
	// 1,000.
	Rate float64
	// Progress is called after each block, possibly concurrently. It may be nil.
	Progress func(Progress)
}

// Progress is the state of an upload, in blocks.
type Progress struct {
	// Read of Total are the blocks that were compared.
	Read, Total int
	// Sent are those that were sent now.
	Sent int
}

// Result is a completed upload.
type Result struct {
	Snapshot awsapi.Snapshot
	// Sums are the checksums of all blocks of the disk that travel.
	Sums Sums
	// Sent are the blocks that were sent now, Resumed those that an interrupted upload
	// had sent, and Inherited those that the parent has.
	Sent, Resumed, Inherited int
}

// upload is a running upload.
type upload struct {
	Upload
	aws     *awsapi.AWS
	source  Source
	journal *journal
	pace    *rate.Limiter

	mutex                          sync.Mutex
	sums                           Sums
	read, sent, resumed, inherited atomic.Int32
}

// Run uploads a disk and waits until the snapshot is completed. It continues an
// interrupted upload of the same disk. After a failure it deletes the pending
// snapshot, unless Keep is set.
func (u Upload) Run(ctx context.Context, a *awsapi.AWS, from Source) (Result, error) {
	u.defaults()
	run := &upload{Upload: u, aws: a, source: from, pace: rate.NewLimiter(rate.Limit(u.Rate), u.Connections), sums: Sums{}}
	id, err := run.begin(ctx)
	if err == nil {
		err = run.blocks(ctx, id)
	}
	if err == nil {
		err = from.Check()
	}
	if err == nil {
		err = run.complete(ctx, id)
	}
	var s awsapi.Snapshot
	if err == nil {
		s, err = a.AwaitSnapshot(ctx, id)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Result{}, errors.Join(err, run.abandon(ctx, id))
	}
	return Result{
		Snapshot: s, Sums: run.sums, Sent: int(run.sent.Load()), Resumed: int(run.resumed.Load()), Inherited: int(run.inherited.Load()),
	}, run.journal.close(!u.LeaveJournal)
}

func (u *Upload) defaults() {
	u.Readers, u.Connections = cmp.Or(u.Readers, defaultReaders), cmp.Or(u.Connections, defaultConnections)
	u.Rate, u.Timeout = cmp.Or(u.Rate, defaultRate), cmp.Or(u.Timeout, time.Hour)
}

// The defaults of Upload and Download.
const (
	defaultReaders     = 4
	defaultConnections = 32
	defaultRate        = 900
)

// begin starts the snapshot, or finds the one of an interrupted upload.
func (u *upload) begin(ctx context.Context) (string, error) {
	settings := fmt.Sprintf("size %d GiB, parent %q, encrypted %t, key %q, description %q, tags %q, timeout %s",
		u.source.Size, u.Parent, u.Encrypted, u.Key, u.Description, u.Tags, u.Timeout)
	j, stale, err := openJournal(u.Journal, head{Source: u.source.Identity, Region: u.aws.Region, Settings: settings})
	if err != nil {
		return "", err
	}
	u.journal = j
	if stale != nil && stale.id != "" && stale.Region == u.aws.Region {
		if err := u.deletePending(ctx, stale.id); err != nil {
			return "", err
		}
	}
	if j.head.id != "" {
		s, err := u.aws.Snapshot(ctx, j.head.id)
		switch {
		case err == nil && s.State != awsapi.SnapshotError:
			return s.ID, nil
		case err != nil && !awsapi.IsNotFound(err):
			return "", err
		}
	}
	// A snapshot without a known ID may exist, and the same token finds it. After its
	// timeout it is useless.
	if j.head.id != "" || j.head.Token == "" || time.Since(j.head.Started) > u.Timeout {
		if err := j.begin(time.Now()); err != nil {
			return "", err
		}
	}
	id, err := u.aws.StartSnapshot(ctx, awsapi.NewSnapshot{
		Token: j.head.Token, Description: u.Description, Size: u.source.Size, Parent: u.Parent, Encrypted: u.Encrypted, Key: u.Key,
		Tags: u.Tags, Timeout: u.Timeout,
	})
	if err != nil {
		return "", err
	}
	return id, j.began(id)
}

// has says whether the snapshot has a block already, from an interrupted upload or
// from the parent.
func (u *upload) has(index int32, sum Sum) bool {
	before, put := u.journal.before(index)
	switch {
	case put && before == sum:
		u.resumed.Add(1)
	case put: // with other content: the snapshot's own block hides the parent's
		return false
	case u.inherits(index, sum):
		u.inherited.Add(1)
	default:
		return false
	}
	u.note(index, sum)
	return true
}

func (u *upload) inherits(index int32, sum Sum) bool {
	parent, has := u.ParentSums[index]
	return has && parent == sum
}

// note counts a block that the snapshot now has.
func (u *upload) note(index int32, sum Sum) {
	u.mutex.Lock()
	u.sums[index] = sum
	u.mutex.Unlock()
	read := u.read.Add(1)
	if u.Progress != nil {
		u.Progress(Progress{Read: int(read), Total: len(u.source.Blocks), Sent: int(u.sent.Load())})
	}
}

// complete completes the snapshot. An interrupted upload may have done that.
func (u *upload) complete(ctx context.Context, id string) error {
	if err := u.journal.flush(); err != nil {
		return err
	}
	err := u.aws.CompleteSnapshot(ctx, id, len(u.journal.done), u.journal.done.linear())
	if err == nil {
		return nil
	}
	if s, reading := u.aws.Snapshot(ctx, id); reading == nil && s.State == awsapi.SnapshotCompleted {
		return nil
	}
	return err
}

// abandonMost is how long the deletion of a pending snapshot may take, also after
// Ctrl-C.
const abandonMost = time.Minute

// abandon deletes what a failed upload leaves behind.
func (u *upload) abandon(ctx context.Context, id string) error {
	if u.journal == nil {
		return nil
	}
	if u.Keep {
		err := u.journal.close(false)
		if id == "" {
			return err
		}
		return errors.Join(fmt.Errorf("the pending snapshot %s stays for %s: the same upload goes on, if you start it again before", id, u.Timeout), err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonMost)
	defer cancel()
	if id != "" {
		if err := u.deletePending(ctx, id); err != nil {
			return errors.Join(fmt.Errorf("the pending snapshot %s stays until its timeout; delete it: %w", id, err), u.journal.close(false))
		}
	}
	return u.journal.close(true)
}

// deletePending deletes a snapshot that is not completed.
func (u *upload) deletePending(ctx context.Context, id string) error {
	s, err := u.aws.Snapshot(ctx, id)
	if awsapi.IsNotFound(err) || err == nil && s.State == awsapi.SnapshotCompleted {
		return nil
	}
	if err != nil {
		return err
	}
	return u.aws.RemoveSnapshot(ctx, id)
}
