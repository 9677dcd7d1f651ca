// Package snapshot writes disks to EBS snapshots, and reads snapshots into files,
// through the EBS direct APIs. No instance and no bucket is needed.
package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Sum is the SHA-256 of a block.
type Sum = [sha256.Size]byte

// Sums are the checksums of the blocks of a snapshot.
type Sums map[int32]Sum

// linear is the SHA-256 of the checksums in the order of the blocks, as AWS computes it
// (https://docs.aws.amazon.com/ebs/latest/APIReference/API_CompleteSnapshot.html).
func (s Sums) linear() Sum {
	all := sha256.New()
	for _, index := range slices.Sorted(maps.Keys(s)) {
		sum := s[index]
		all.Write(sum[:])
	}
	return Sum(all.Sum(nil))
}

// Save writes the checksums of a snapshot to a file. A later upload with this snapshot
// as its parent reads them from there, instead of reading the whole snapshot. The content
// digest of the disk is in the file if it is known.
func (s Sums) Save(path, snapshot, digest string) error {
	text := bytes.NewBufferString(strings.TrimRight(sumsHead+" "+snapshot+" "+digest, " ") + "\n")
	for _, index := range slices.Sorted(maps.Keys(s)) {
		writeSum(text, index, s[index])
	}
	if err := surface.Replace(path, text.Bytes(), nil); err != nil {
		return fmt.Errorf("writing the checksums to %s: %w", path, err)
	}
	return nil
}

// sumsHead begins the first line of a file of checksums. The ID of the snapshot and the
// digest of the disk follow.
const sumsHead = "eksnode-sums 1"

// LoadSums reads the checksums of a snapshot from a file.
func LoadSums(path, snapshot string) (Sums, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %w", err)
	}
	defer f.Close()
	sums, err := readSums(f, snapshot)
	if err != nil {
		return nil, fmt.Errorf("reading the checksums: %s%w", path, err)
	}
	return sums, nil
}

// readSums reads the checksums. Its error goes on from the name of the file.
func readSums(from io.Reader, snapshot string) (Sums, error) {
	lines := bufio.NewScanner(from)
	if !lines.Scan() || !strings.HasPrefix(lines.Text()+" ", sumsHead+" "+snapshot+" ") {
		return nil, fmt.Errorf(", line 1: the file has no checksums of the snapshot %s", snapshot)
	}
	sums, last := Sums{}, int32(-1)
	n := 2
	for ; lines.Scan(); n++ {
		index, sum, err := parseSum(lines.Text())
		if err == nil && index <= last {
			err = fmt.Errorf("the block %d is not in order", index)
		}
		if err != nil {
			return nil, fmt.Errorf(", line %d: %w", n, err)
		}
		sums[index], last = sum, index
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf(", line %d: %w", n, err)
	}
	return sums, nil
}

// writeSum writes a line with a block and its checksum. The writer keeps its error.
func writeSum(w io.Writer, index int32, sum Sum) {
	fmt.Fprintf(w, "%d %s\n", index, base64.StdEncoding.EncodeToString(sum[:]))
}

func parseSum(line string) (int32, Sum, error) {
	number, text, _ := strings.Cut(line, " ")
	index, err := strconv.ParseInt(number, 10, 32)
	if err != nil || index < 0 {
		return 0, Sum{}, fmt.Errorf("%q is not the number of a block", number)
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		return 0, Sum{}, fmt.Errorf("block %d: %q is not a SHA-256 in Base64", index, text)
	}
	return int32(index), Sum(sum), nil
}

// BlockSize is the size of a block, in bytes.
const BlockSize = awsapi.BlockSize

// Bytes is the size of a number of blocks, in bytes.
func Bytes(blocks int) int64 { return int64(blocks) * BlockSize }

// eachOf calls a function for the numbers below n, in order, from several workers. Each
// worker has a buffer for a block.
func eachOf(ctx context.Context, n, workers int, do func(ctx context.Context, i int, buffer []byte) error) error {
	next := atomic.Int32{}
	group, ctx := errgroup.WithContext(ctx)
	for range min(n, workers) {
		group.Go(func() error {
			buffer := make([]byte, BlockSize)
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, i, buffer); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		})
	}
	return group.Wait()
}

// block sends a block, unless the snapshot has it.
func (u *upload) block(ctx context.Context, id string, index int32, data []byte) error {
	if u.free[index] {
		clear(data)
	} else if err := u.source.Read(index, data); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if u.has(index, sum) {
		return nil
	}
	if err := u.aws.PutBlock(ctx, id, index, data, sum, u.journal.head.Started); err != nil {
		return err
	}
	if err := u.journal.add(index, sum); err != nil {
		return err
	}
	u.sent.Add(1)
	u.note(index, sum)
	return nil
}

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
			return awsapi.Snapshot{}, lost("the snapshot %s of an interrupted upload has the block %d, which the "+
				"disk no longer uses", id, index)
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
		return lost("the snapshot %s of an interrupted upload has the state error: its timeout of %s may be over", id,
			u.Timeout)
	}
	return nil
}

// discard deletes the snapshot of another upload, or of one that cannot go on, unless the
// snapshot is completed.
func (u *upload) discard(ctx context.Context, of *head) error {
	if of.Region != u.aws.Region {
		u.say("the snapshot %s of an interrupted upload to the region %s stays until its timeout", of.id, of.Region)
		return nil
	}
	a := u.awsFor(of)
	s, err := a.Snapshot(ctx, of.id)
	switch {
	case awsapi.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case s.State == awsapi.SnapshotCompleted:
		u.say("the snapshot %s of the interrupted upload is complete and stays; delete it if nothing uses it", of.id)
		return nil
	}
	return a.RemoveSnapshot(ctx, of.id)
}

// awsFor calls AWS for the snapshot of a journal. EC2 may not find a new one yet.
func (u *upload) awsFor(of *head) *awsapi.AWS {
	if time.Since(of.Started) < awsapi.Patience {
		return u.aws.ForNew()
	}
	return u.aws
}
