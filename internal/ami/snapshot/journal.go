package snapshot

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// journal is a file with the state of a transfer, so that an interrupted transfer goes
// on. Its first line is a head, and each other line is a block that was sent or
// fetched. The process that has the journal open has a lock on the file.
//
// The head is on the disk before a snapshot is started, so a power failure cannot lose
// the client token. It can lose lines of blocks: those blocks travel again. A line of a
// block is written after the block has travelled. Lines that are cut off are ignored.
type journal struct {
	head head
	done Sums

	path  string
	file  *os.File
	mutex sync.Mutex
	out   *bufio.Writer
	since int // lines since the last flush
}

// head identifies a transfer. Two transfers with the same head are the same.
type head struct {
	// Source is the disk as the caller identifies it, or the snapshot of a download.
	Source string `json:"source"`
	Region string `json:"region"`
	// Settings are the parameters of the snapshot.
	Settings string `json:"settings"`
	// Token is the client token of the start. Empty is a journal that has not begun.
	Token string `json:"token"`
	// Started is when the snapshot was started.
	Started time.Time `json:"started"`

	// id is the snapshot's ID, from a line of its own. Empty is an upload that ended
	// before AWS returned the ID.
	id string
}

const (
	// journalHead begins the first line of a journal. The head in JSON follows.
	journalHead = "eksnode-journal 1 "
	// journalAny begins the first line of journals of all versions.
	journalAny = "eksnode-journal "
	// idLine begins the line with the snapshot's ID.
	idLine = "snapshot "
	// headMost and lineMost are the lengths of the longest lines. A head has up to 50
	// tags.
	headMost, lineMost = 64 << 10, 256
	// flushEach is after how many blocks the lines go to the file.
	flushEach = 16
)

// errInUse says that another process has a locked file.
var errInUse = errors.New("in use: another eksnode works on the same disk or snapshot; wait until that process ends")

// openJournal opens and locks the journal of a transfer. It returns the head of an
// interrupted transfer, or nil. If that is the same as the wanted transfer, the journal
// has its token and its blocks.
func openJournal(path string, want head) (*journal, *head, error) {
	file, err := lockedFile(path)
	if err != nil {
		return nil, nil, err
	}
	j := &journal{path: path, head: want, done: Sums{}, file: file, out: bufio.NewWriter(file)}
	found, done, err := readJournal(file)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the journal %s: %w", path, err), file.Close())
	}
	if found != nil && found.same(want) {
		j.head, j.done = *found, done
		_, _ = j.out.WriteString("\n") // ends a line that was cut off
	}
	return j, found, nil
}

// same says that two heads are those of one transfer.
func (h head) same(other head) bool {
	return h.Source == other.Source && h.Region == other.Region && h.Settings == other.Settings
}

// readJournal reads a journal. The head is nil if no transfer has begun.
func readJournal(from io.Reader) (*head, Sums, error) {
	in := bufio.NewReaderSize(from, headMost)
	first, err := in.ReadSlice('\n')
	if errors.Is(err, io.EOF) && (strings.HasPrefix(journalHead, string(first)) ||
		bytes.HasPrefix(first, []byte(journalHead))) {
		return nil, nil, nil // the process ended while it wrote the head
	}
	text, known := bytes.CutPrefix(first, []byte(journalHead))
	switch {
	case !known && bytes.HasPrefix(first, []byte(journalAny)):
		return nil, nil, errors.New("line 1: a later version of eksnode wrote the journal; use that version, or " +
			"remove the file")
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
		return nil, nil, err
	}
	var h head
	if err != nil || !known || json.Unmarshal(text, &h) != nil || h.Token == "" {
		return nil, nil, errors.New("line 1: the file is not a journal of eksnode; move the file away")
	}
	done := Sums{}
	for {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return &h, done, nil // without its end, the line is cut off
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, nil, err
		case err != nil || len(line) > lineMost:
			continue
		}
		text := string(line[:len(line)-1])
		if id, named := strings.CutPrefix(text, idLine); named {
			h.id = id
		} else if index, sum, err := parseSum(text); err == nil {
			done[index] = sum
		}
	}
}

// Interrupted returns the ID of the snapshot in the journal of an interrupted upload. It
// is empty if there is none.
func Interrupted(journal string) string {
	file, err := os.Open(journal)
	if err != nil {
		return ""
	}
	defer file.Close()
	h, _, err := readJournal(file)
	if err != nil || h == nil {
		return "" // the upload reports a damaged journal
	}
	return h.id
}

// begin empties the file and writes a head with a new token.
func (j *journal) begin(now time.Time) error {
	j.head.Token, j.head.Started, j.head.id = "eksnode-"+rand.Text(), now, ""
	j.done = Sums{}
	j.out.Reset(j.file)
	text, err := json.Marshal(j.head)
	if err == nil && len(journalHead)+len(text) >= headMost {
		err = fmt.Errorf("the parameters of the snapshot have %d bytes; use fewer tags", len(text))
	}
	if err == nil {
		err = j.file.Truncate(0)
	}
	if err == nil {
		_, err = j.file.Seek(0, io.SeekStart)
	}
	if err == nil {
		_, err = fmt.Fprintf(j.out, "%s%s\n", journalHead, text)
	}
	return j.sync(err)
}

func (j *journal) began(id string) error {
	j.head.id = id
	_, err := fmt.Fprintf(j.out, "%s%s\n", idLine, id)
	return j.sync(err)
}

// sync writes all lines to the disk. Err is that of the last line.
func (j *journal) sync(err error) error {
	if err == nil {
		err = j.out.Flush()
	}
	if err == nil {
		err = j.file.Sync()
	}
	return j.explain(err)
}

func (j *journal) explain(err error) error {
	if err != nil {
		return fmt.Errorf("writing the journal %s: %w", j.path, err)
	}
	return nil
}

// add notes a block that has travelled.
func (j *journal) add(index int32, sum Sum) error {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.done[index] = sum
	writeSum(j.out, index, sum)
	if j.since++; j.since < flushEach {
		return nil
	}
	j.since = 0
	return j.explain(j.out.Flush())
}

// before returns the checksum with which a block has travelled.
func (j *journal) before(index int32) (Sum, bool) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	sum, put := j.done[index]
	return sum, put
}

// close ends the use of the file and its lock. With remove, it also removes the file.
func (j *journal) close(remove bool) error {
	if remove {
		return j.explain(removeLocked(j.file))
	}
	return j.explain(errors.Join(j.out.Flush(), j.file.Close()))
}
