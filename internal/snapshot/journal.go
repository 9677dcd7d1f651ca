package snapshot

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// journal is a file with the state of an upload, so that an interrupted upload goes on.
// Its first line is a head in JSON, and each other line is a block that was put. A line
// that is cut off is ignored: its block is put again.
type journal struct {
	head head
	done Sums

	path  string
	mutex sync.Mutex
	file  *os.File
	out   *bufio.Writer
	err   error
	since int // lines since the last flush
}

// head identifies an upload. Two uploads with the same head are the same.
type head struct {
	// Source is the disk as the caller identifies it.
	Source string `json:"source"`
	Region string `json:"region"`
	// Settings are the parameters of the snapshot.
	Settings string `json:"settings"`
	// Token is the client token of the start.
	Token string `json:"token"`
	// Started is when the snapshot was started.
	Started time.Time `json:"started"`

	// id is the snapshot's ID, from a line of its own. Empty is an upload that ended
	// before AWS returned the ID.
	id string
}

// openJournal opens the journal of an interrupted upload of the same disk. Without one,
// the journal has no token yet. Stale is an upload of another disk or with other
// settings: its pending snapshot is useless.
func openJournal(path string, want head) (j *journal, stale *head, err error) {
	j = &journal{path: path, head: want, done: Sums{}}
	found, done, err := load(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return j, nil, nil
	case err != nil:
		return nil, nil, err
	case !found.same(want):
		return j, found, nil
	}
	j.head, j.done = *found, done
	return j, nil, j.appending()
}

func (h head) same(other head) bool {
	return h.Source == other.Source && h.Region == other.Region && h.Settings == other.Settings
}

// begin replaces the file by a new journal with a new token. The token must be in the
// file before the snapshot is started.
func (j *journal) begin(now time.Time) error {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // never fails, by its documentation
	j.head.Token, j.head.Started, j.head.id = "eksnode-"+hex.EncodeToString(token), now, ""
	j.done = Sums{}
	if j.file != nil {
		_ = j.file.Close() // the file is replaced
	}
	text, err := json.Marshal(j.head)
	if err == nil {
		err = os.WriteFile(j.path+".new", append(text, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(j.path+".new", j.path)
	}
	if err != nil {
		return fmt.Errorf("writing the journal of the upload: %w", err)
	}
	return j.appending()
}

// began notes the ID of the snapshot.
func (j *journal) began(id string) error {
	j.head.id = id
	fmt.Fprintf(j.out, "%s%s\n", idLine, id)
	if err := errors.Join(j.err, j.out.Flush()); err != nil {
		return fmt.Errorf("writing the journal of the upload: %w", err)
	}
	return nil
}

// idLine begins the line with the snapshot's ID.
const idLine = "snapshot "

func (j *journal) appending() error {
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("opening the journal of the upload: %w", err)
	}
	j.file, j.out = f, bufio.NewWriter(f)
	_, j.err = j.out.WriteString("\n") // ends a line that was cut off
	return nil
}

// load reads a journal.
func load(path string) (*head, Sums, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the journal of the upload: %w", err)
	}
	defer f.Close()
	in := bufio.NewReader(f)
	first, err := in.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("reading the journal of the upload: %w", err)
	}
	var h head
	if err := json.Unmarshal(first, &h); err != nil || h.Token == "" {
		return nil, nil, fmt.Errorf("reading the journal of the upload: %s is not a journal of eksnode; remove the file, or name another one", path)
	}
	done := Sums{}
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return &h, done, nil // without its end, the line is cut off
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the journal of the upload: %w", err)
		}
		line = strings.TrimSuffix(line, "\n")
		if id, named := strings.CutPrefix(line, idLine); named {
			h.id = id
		} else if index, sum, err := parseSum(line); err == nil {
			done[index] = sum
		}
	}
}

// Interrupted returns the ID of the snapshot in the journal of an interrupted upload. It
// is empty if there is none.
func Interrupted(journal string) string {
	h, _, err := load(journal)
	if err != nil {
		return "" // the upload reports a damaged journal
	}
	return h.id
}

// flushEach is after how many blocks the lines go to the file.
const flushEach = 16

// add notes a block that was put.
func (j *journal) add(index int32, sum Sum) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.done[index] = sum
	writeSum(j.out, index, sum)
	if j.since++; j.since >= flushEach {
		j.since, j.err = 0, errors.Join(j.err, j.out.Flush())
	}
}

// before returns the checksum with which a block was put.
func (j *journal) before(index int32) (Sum, bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	sum, put := j.done[index]
	return sum, put
}

// flush writes all lines to the file.
func (j *journal) flush() error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := errors.Join(j.err, j.out.Flush()); err != nil {
		return fmt.Errorf("writing the journal of the upload: %w", err)
	}
	return nil
}

// close writes the rest. With remove, it removes the file.
func (j *journal) close(remove bool) error {
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.err, j.out.Flush(), j.file.Close())
	if remove {
		err = os.Remove(j.path)
	}
	if err != nil {
		return fmt.Errorf("writing the journal of the upload: %w", err)
	}
	return nil
}
