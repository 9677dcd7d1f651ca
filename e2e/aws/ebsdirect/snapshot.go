package ebsdirect

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// The states of a snapshot (API, StartSnapshot).
const (
	Pending   = "pending"
	Completed = "completed"
	Errored   = "error"
)

// Tag is a tag of a snapshot.
type Tag struct{ Key, Value string }

// Snapshot is a snapshot.
type Snapshot struct {
	// Sparse says that blocks of zeros were never written, so that Add leaves them out.
	Sparse          bool
	ID, Description string
	// Owner is an account. Public says that every account may use the snapshot.
	Owner  string
	Public bool
	State  string
	// Message explains the state error.
	Message string
	// Size is the size of the volume, in GiB.
	Size      int64
	Encrypted bool
	// Key is the ARN of the KMS key of an encrypted snapshot.
	Key     string
	Parent  string
	Volume  string
	Started time.Time
	Tags    []Tag

	timeout time.Duration
	written time.Time // the last block
	early   int       // puts that still fail with 404
	shown   int       // how often the state is still shown as pending
	file    *os.File
	sums    map[int32][sha256.Size]byte
	parent  *Snapshot
}

// Begun says that a call started the snapshot, and not a test.
func (s Snapshot) Begun() bool { return s.timeout > 0 }

// Find returns a copy of a snapshot, or nil. A pending snapshot whose time is over has
// the state error.
func (d *Double) Find(id string) *Snapshot {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.find(id)
	if s == nil {
		return nil
	}
	one := *s
	return &one
}

// Describe returns the state as DescribeSnapshots of EC2 shows it. A snapshot that was
// completed, or could not be completed, is shown as pending for a while.
func (d *Double) Describe(id string) (Snapshot, bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.find(id)
	if s == nil {
		return Snapshot{}, false
	}
	one := *s
	if s.State != Pending && s.shown > 0 {
		s.shown--
		one.State, one.Message = Pending, ""
	}
	return one, true
}

// IDs returns the IDs of all snapshots, in the order of their start.
func (d *Double) IDs() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return show.Each(d.all, func(s *Snapshot) string { return s.ID })
}

// Add adds a snapshot with content, as if EC2 had made it. Blocks with the content of the
// parent, if there is one, are the parent's.
func (d *Double) Add(s Snapshot, content io.Reader) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	one, err := d.add(s)
	if err != nil {
		return err
	}
	one.parent = d.find(s.Parent)
	block, zeros := make([]byte, BlockSize), make([]byte, BlockSize)
	for index := int32(0); ; index++ {
		n, err := io.ReadFull(content, block)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		clear(block[n:])
		from := one.parent.source(index)
		if s.Sparse && from == nil && bytes.Equal(block, zeros) {
			continue
		}
		sum := sha256.Sum256(block)
		if from != nil && from.sums[index] == sum {
			continue
		}
		if err := one.keep(index, block, sum, false); err != nil {
			return err
		}
	}
}

// Delete deletes a snapshot. The blocks that its children share stay: a snapshot is
// incremental only in storage (UG, ebs-snapshots.html).
func (d *Double) Delete(id string) bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before := len(d.all)
	d.all = slices.DeleteFunc(d.all, func(s *Snapshot) bool { return s.ID == id })
	return len(d.all) < before
}

// find finds a snapshot. The caller holds the mutex.
func (d *Double) find(id string) *Snapshot {
	i := slices.IndexFunc(d.all, func(s *Snapshot) bool { return s.ID == id })
	if i < 0 {
		return nil
	}
	s := d.all[i]
	// API, StartSnapshot, Timeout
	if s.State == Pending && s.timeout > 0 && d.Now().Sub(s.written) >= s.timeout {
		s.State, s.Message, s.shown = Errored, "The snapshot was not completed within its timeout", 0
	}
	return s
}

// add adds a snapshot without content. The caller holds the mutex.
func (d *Double) add(s Snapshot) (*Snapshot, error) {
	file, err := os.Create(filepath.Join(d.folder, s.ID))
	if err != nil {
		return nil, fmt.Errorf("keeping the snapshot: %w", err)
	}
	s.file, s.sums = file, map[int32][sha256.Size]byte{}
	d.all = append(d.all, &s)
	return &s, nil
}

func (s *Snapshot) keep(index int32, block []byte, sum [sha256.Size]byte, forget bool) error {
	if !forget {
		if _, err := s.file.WriteAt(block, int64(index)*BlockSize); err != nil {
			return err
		}
	}
	s.sums[index] = sum
	return nil
}

// source returns the snapshot in the chain of parents that has a block, or nil.
func (s *Snapshot) source(index int32) *Snapshot {
	for ; s != nil; s = s.parent {
		if _, has := s.sums[index]; has {
			return s
		}
	}
	return nil
}

// indexes are the blocks of a snapshot and of its parents, in order.
func (s *Snapshot) indexes() []int32 {
	all := map[int32]bool{}
	for ; s != nil; s = s.parent {
		for index := range s.sums {
			all[index] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// Blocks are the checksums of the blocks of a snapshot, with those of its parents.
func (d *Double) Blocks(id string) map[int32][sha256.Size]byte {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, all := d.find(id), map[int32][sha256.Size]byte{}
	if s == nil {
		return nil
	}
	for _, index := range s.indexes() {
		all[index] = s.source(index).sums[index]
	}
	return all
}

// Volume is what a volume made from a snapshot holds. A block that the snapshot lacks
// reads as zeros. On an encrypted volume, also on one that is encrypted when it is
// made, the block reads as garbage (https://github.com/awslabs/coldsnap/issues/395).
func (d *Double) Volume(id string, encrypted bool) (io.Reader, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.find(id)
	if s == nil || s.State != Completed {
		return nil, fmt.Errorf("snapshot %s is not completed", id)
	}
	return &volume{s: s, garbage: encrypted || s.Encrypted, left: s.Size << 30 / BlockSize}, nil
}

type volume struct {
	s       *Snapshot
	garbage bool
	index   int32
	left    int64 // blocks
	block   []byte
}

func (v *volume) Read(p []byte) (int, error) {
	if len(v.block) == 0 {
		if v.left == 0 {
			return 0, io.EOF
		}
		v.block = make([]byte, BlockSize)
		if from := v.s.source(v.index); from != nil {
			if _, err := from.file.ReadAt(v.block, int64(v.index)*BlockSize); err != nil && !errors.Is(err, io.EOF) {
				return 0, err
			}
		} else if v.garbage {
			for i := range v.block {
				v.block[i] = byte(i*7) ^ byte(v.index) ^ 0xa5
			}
		}
		v.index++
		v.left--
	}
	n := copy(p, v.block)
	v.block = v.block[n:]
	return n, nil
}
