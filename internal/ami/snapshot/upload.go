package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Source is a disk to upload.
type Source struct {
	// Identity changes when the disk changes, such as its path, size and time.
	Identity string
	// Size is the size of the volume, in GiB.
	Size int64
	// Blocks are the blocks that the disk uses, in order.
	Blocks []int32
	// Read reads a block into a buffer of BlockSize bytes. It may be called
	// concurrently.
	Read func(index int32, into []byte) error
	// Check returns an error when the disk has changed since it was opened.
	Check func() error
}

// Upload says how to upload a disk. Zero values of numbers mean the defaults.
type Upload struct {
	// NewSnapshot gets its token and size here. Its timeout is how long an interrupted
	// upload can go on; the default is 1 hour. Blocks of the parent that the disk does not
	// use become zeros: else the snapshot would keep what was deleted.
	awsapi.NewSnapshot
	// ParentSums are the checksums of the parent, whose blocks need not travel.
	ParentSums Sums
	// Journal is the path of the file that lets an interrupted upload go on.
	Journal string
	// LeaveJournal leaves the journal of a completed upload to the caller: the same
	// upload again finds the completed snapshot.
	LeaveJournal bool
	// Keep keeps the pending snapshot and the journal after Ctrl-C, or before a block was
	// sent. After other failures they stay if the snapshot can still become the disk.
	Keep bool
	// Connections is the number of blocks that are read and sent at the same time; the
	// default is 32.
	Connections int
	// Progress is called after each block, possibly concurrently. It may be nil.
	Progress func(Progress)
	// Say prints a line for a person who waits. It may be nil.
	Say func(format string, args ...any)
}

// Progress is the state of an upload, in blocks.
type Progress struct {
	// Read of Total are the blocks that were compared.
	Read, Total int
	// Sent are those that were sent now.
	Sent int
}

// Bytes are the blocks in bytes.
func (p Progress) Bytes() (read, sent, total int64) {
	return Bytes(p.Read), Bytes(p.Sent), Bytes(p.Total)
}

// Result is a completed upload.
type Result struct {
	Snapshot awsapi.Snapshot
	// Sums are the checksums of all blocks of the snapshot.
	Sums Sums
	// Sent are the blocks that were sent now, Resumed those that an interrupted upload
	// had sent, and Inherited those that the parent has.
	Sent, Resumed, Inherited int
	// Token is the journal's token of this upload.
	Token string
}

type upload struct {
	Upload
	aws     *awsapi.AWS
	source  Source
	journal *journal
	// free are the blocks of the parent that the disk does not use.
	free map[int32]bool

	mutex                          sync.Mutex
	sums                           Sums
	read, sent, resumed, inherited atomic.Int32
}

// spoiledError is a failure after which the snapshot cannot become the disk.
type spoiledError struct{ error }

func (e spoiledError) Unwrap() error { return e.error }

// Run uploads a disk and waits until the snapshot is completed. It continues an
// interrupted upload of the same disk, if its snapshot still exists. After a failure the
// error names the pending snapshot if it stays.
func (u Upload) Run(ctx context.Context, a *awsapi.AWS, from Source) (Result, error) {
	u.Connections, u.Timeout = cmp.Or(u.Connections, defaultConnections), cmp.Or(u.Timeout, time.Hour)
	settings := fmt.Sprintf("size %d GiB, parent %q, encrypted %t, key %q, description %q, tags %q, timeout %s",
		from.Size, u.Parent, u.Encrypted, u.Key, u.Description, u.Tags, u.Timeout)
	// found is the head of an interrupted upload, or nil.
	journal, found, err := openJournal(u.Journal, head{Source: from.Identity, Region: a.Region, Settings: settings})
	if err != nil {
		return Result{}, err
	}
	run := &upload{Upload: u, aws: a, source: from, journal: journal}
	s, err := run.upload(ctx, found)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		run.Keep = run.Keep || ctx.Err() == nil && !errors.As(err, new(spoiledError)) && len(run.journal.done) > 0
		return Result{}, errors.Join(err, run.abandon(ctx))
	}
	return Result{
		Snapshot: s, Sums: run.sums, Sent: int(run.sent.Load()), Resumed: int(run.resumed.Load()),
		Inherited: int(run.inherited.Load()),
		Token:     run.journal.head.Token,
	}, run.journal.close(!u.LeaveJournal)
}

// defaultConnections is the default of Upload and Download.
const defaultConnections = 32

// upload goes on with an interrupted upload, or makes a new one.
func (u *upload) upload(ctx context.Context, found *head) (awsapi.Snapshot, error) {
	if err := u.cover(ctx); err != nil {
		if s, over := u.over(ctx, err); over {
			return s, nil
		}
		return awsapi.Snapshot{}, err
	}
	if found != nil && u.journal.head.Token != "" {
		s, err := u.resume(ctx)
		var lost *lostError
		if !errors.As(err, &lost) {
			return s, err
		}
		u.say("%v; the upload starts over", lost)
		found = &u.journal.head
	}
	// The snapshot of another disk, or one that cannot go on, is useless.
	if found != nil && found.id != "" {
		if err := u.discard(ctx, found); err != nil {
			return awsapi.Snapshot{}, err
		}
	}
	if err := u.journal.begin(time.Now()); err != nil {
		return awsapi.Snapshot{}, err
	}
	if err := u.start(ctx); err != nil {
		return awsapi.Snapshot{}, err
	}
	return u.send(ctx)
}

// cover adds the blocks to send that only the parent has. EBS lists the parent's blocks:
// a file of checksums may lack some.
func (u *upload) cover(ctx context.Context) error {
	if u.Parent == "" {
		return nil
	}
	parent, err := u.aws.Blocks(ctx, u.Parent)
	if err != nil {
		return err
	}
	known, used := u.ParentSums, u.source.Blocks
	u.ParentSums, u.free = Sums{}, map[int32]bool{}
	for _, b := range parent {
		if sum, has := known[b.Index]; has {
			u.ParentSums[b.Index] = sum
		}
		if _, uses := slices.BinarySearch(used, b.Index); !uses {
			u.free[b.Index] = true
		}
	}
	if len(u.free) > 0 {
		u.source.Blocks = slices.Concat(used, slices.Collect(maps.Keys(u.free)))
		slices.Sort(u.source.Blocks)
		u.say("blocks that only the parent %s uses become zeros: %d", u.Parent, len(u.free))
	}
	return nil
}

// over returns the completed snapshot of the journal, if its parent was deleted since. Its
// checksums are those of the blocks that were sent.
func (u *upload) over(ctx context.Context, err error) (awsapi.Snapshot, bool) {
	id := u.journal.head.id
	if id == "" || !awsapi.IsNotFound(err) {
		return awsapi.Snapshot{}, false
	}
	s, err := u.awsFor(&u.journal.head).Snapshot(ctx, id)
	u.sums = u.journal.done
	u.resumed.Store(int32(len(u.sums)))
	return s, err == nil && s.State == awsapi.SnapshotCompleted
}

// start starts the snapshot, or finds the one that the client token started.
func (u *upload) start(ctx context.Context) error {
	n := u.NewSnapshot
	n.Token, n.Size = u.journal.head.Token, u.source.Size
	id, err := u.aws.StartSnapshot(ctx, n)
	if err != nil {
		return err
	}
	return u.journal.began(id)
}

func (u *upload) send(ctx context.Context) (awsapi.Snapshot, error) {
	u.sums = Sums{}
	for _, n := range []*atomic.Int32{&u.read, &u.sent, &u.resumed, &u.inherited} {
		n.Store(0)
	}
	id := u.journal.head.id
	err := eachOf(ctx, len(u.source.Blocks), u.Connections, func(ctx context.Context, i int, buffer []byte) error {
		return u.block(ctx, id, u.source.Blocks[i], buffer)
	})
	if err != nil {
		return awsapi.Snapshot{}, err
	}
	if err := u.source.Check(); err != nil {
		return awsapi.Snapshot{}, spoiledError{err}
	}
	if err := u.complete(ctx, id); err != nil {
		return awsapi.Snapshot{}, err
	}
	s, err := u.aws.AwaitSnapshot(ctx, id)
	if s.State == awsapi.SnapshotError {
		err = spoiledError{err}
	}
	return s, err
}

// has says whether the snapshot has a block already, from an interrupted upload or
// from the parent.
func (u *upload) has(index int32, sum Sum) bool {
	before, put := u.journal.before(index)
	parent, has := u.ParentSums[index]
	switch {
	case put && before == sum:
		u.resumed.Add(1)
	case put: // with other content: the snapshot's own block hides the parent's
		return false
	case has && parent == sum:
		u.inherited.Add(1)
	default:
		return false
	}
	u.note(index, sum)
	return true
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

// complete completes the snapshot. AWS refuses a second completion, also when an
// interrupted upload or a call without a response made the first one. Then the state
// changes some time later.
func (u *upload) complete(ctx context.Context, id string) error {
	// Without the last lines, the next run would put blocks into a complete snapshot.
	if err := u.journal.sync(nil); err != nil {
		return err
	}
	err := u.aws.CompleteSnapshot(ctx, id, len(u.journal.done), u.journal.done.linear())
	if !awsapi.IsRefused(err) {
		return err
	}
	for range completeLooks {
		switch s, reading := u.awsFor(&u.journal.head).Snapshot(ctx, id); {
		case reading != nil:
			return err
		case s.State == awsapi.SnapshotError:
			return spoiledError{err}
		case s.State == awsapi.SnapshotCompleted:
			return nil
		}
		if waiting := u.aws.Settle(ctx); waiting != nil {
			return waiting
		}
	}
	return spoiledError{err}
}

// completeLooks is how often to look for the completion, every two seconds.
const completeLooks = 60

// abandonMost is how long the deletion of a pending snapshot may take, also after
// Ctrl-C.
const abandonMost = 2 * awsapi.Patience

// abandon deletes what a failed upload leaves behind.
func (u *upload) abandon(ctx context.Context) error {
	if u.Keep && u.journal.head.id != "" {
		return errors.Join(fmt.Errorf("the pending snapshot %s stays for %s: the same upload goes on, if you start "+
			"it again before", u.journal.head.id, u.Timeout), u.journal.close(false))
	}
	if u.Keep || u.journal.head.Token == "" { // or the journal is of another upload
		return u.journal.close(false)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonMost)
	defer cancel()
	if id := u.journal.head.id; id != "" {
		if err := u.awsFor(&u.journal.head).RemoveSnapshot(ctx, id); err != nil {
			return errors.Join(fmt.Errorf("the snapshot %s stays, until its timeout if it is pending; repeat the "+
				"upload to go on, or delete the snapshot: %w", id, err), u.journal.close(false))
		}
	}
	return u.journal.close(true)
}

func (u *upload) say(format string, args ...any) {
	if u.Say != nil {
		u.Say(format, args...)
	}
}
