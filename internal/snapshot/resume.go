package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// lostError says why an interrupted upload cannot go on.
type lostError struct{ why string }

func (e *lostError) Error() string { return e.why }

func lost(format string, args ...any) error { return &lostError{fmt.Sprintf(format, args...)} }

// resume goes on with the upload of the journal. The error is a lostError if the
// snapshot cannot become the disk.
func (u *upload) resume(ctx context.Context) (awsapi.Snapshot, error) {
	if err := u.found(ctx); err != nil {
		return awsapi.Snapshot{}, err
	}
	id := u.journal.head.id
	travels := map[int32]bool{}
	for _, index := range u.source.Blocks {
		travels[index] = true
	}
	for index := range u.journal.done {
		if !travels[index] {
			return awsapi.Snapshot{}, lost("the snapshot %s of an interrupted upload has the block %d, which the disk no longer uses", id, index)
		}
	}
	s, err := u.send(ctx)
	if err == nil || ctx.Err() != nil {
		return s, err
	}
	// A put may have reached AWS without a line in the journal. If its block now comes
	// from the parent, AWS refuses the completion.
	now, reading := u.awsFor(&u.journal.head).Snapshot(ctx, id)
	if awsapi.IsRefused(err) || awsapi.IsNotFound(reading) || reading == nil && now.State == awsapi.SnapshotError {
		return s, lost("the snapshot %s of an interrupted upload cannot be completed (%v)", id, err)
	}
	return s, err
}

// found finds the snapshot of the journal.
func (u *upload) found(ctx context.Context) error {
	id := u.journal.head.id
	if id == "" {
		// The upload ended before it knew the ID. The token finds the snapshot, until
		// its timeout.
		if time.Since(u.journal.head.Started) > u.Timeout {
			return lost("the snapshot of an interrupted upload has reached its timeout of %s", u.Timeout)
		}
		err := u.start(ctx)
		if awsapi.IsRefused(err) {
			return lost("the snapshot of an interrupted upload cannot be found (%v)", err)
		}
		return err
	}
	s, err := u.awsFor(&u.journal.head).Snapshot(ctx, id)
	switch {
	case awsapi.IsNotFound(err):
		return lost("the snapshot %s of an interrupted upload was deleted", id)
	case err != nil:
		return err
	case s.State == awsapi.SnapshotError:
		return lost("the snapshot %s of an interrupted upload has the state error: its timeout of %s may be over", id, u.Timeout)
	}
	return nil
}

// discard deletes the snapshot of another upload, or of one that cannot go on.
func (u *upload) discard(ctx context.Context, of *head) error {
	if of.Region != u.aws.Region {
		u.say("the snapshot %s of an interrupted upload to the region %s stays until its timeout", of.id, of.Region)
		return nil
	}
	return u.deletePending(ctx, u.awsFor(of), of.id)
}

// awsFor calls AWS for the snapshot of a journal. EC2 may not find a new one yet.
func (u *upload) awsFor(of *head) *awsapi.AWS {
	if time.Since(of.Started) < awsapi.Patience {
		return u.aws.ForNew()
	}
	return u.aws
}
