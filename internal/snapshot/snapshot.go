// Package snapshot writes disks to EBS snapshots, and reads snapshots into files,
// through the EBS direct APIs. No instance and no bucket is needed.
package snapshot

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
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
// as its parent reads them from there, instead of reading the whole snapshot.
func (s Sums) Save(path, snapshot string) error {
	err := Replace(path, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s %s\n", sumsHead, snapshot)
		for _, index := range slices.Sorted(maps.Keys(s)) {
			writeSum(w, index, s[index])
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the checksums to %s: %w", path, err)
	}
	return nil
}

// Replace writes a file of the cache folder, or leaves it as it was.
func Replace(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	w := bufio.NewWriter(f)
	err = fill(w)
	for _, next := range []func() error{w.Flush, f.Sync} {
		if err == nil {
			err = next()
		}
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// sumsHead begins the first line of a file of checksums. The ID of the snapshot
// follows.
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
	if !lines.Scan() || lines.Text() != sumsHead+" "+snapshot {
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
