package plan

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Boot is a boot of a machine, by the times of its messages in the journal.
type Boot struct {
	// Started and Ended are when the first and the last message were written.
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
}

// bootsMost bounds the boots of a report, and journalMost the messages of a journal file.
// A file of systemd has at most 128 MiB, and fewer messages.
const (
	bootsMost   = 1000
	journalMost = 1 << 22
)

// Boots are the boots in a host's journal, in order of time. What cannot be read is left
// out: a report has them for people, and no result depends on them.
func Boots(ctx context.Context, h *host.Host) []Boot {
	found := map[string]Boot{}
	for _, folder := range []string{"/var/log/journal", "/run/log/journal"} {
		_, _ = h.Files.Walk(ctx, folder, folder, func(e host.Entry, err error) error {
			name := path.Base(e.Path)
			if err != nil || !e.Mode().IsRegular() || !strings.HasPrefix(name, "system") {
				return err
			}
			f, err := h.Files.OpenRegular(e.Path)
			if err != nil {
				return nil //nolint:nilerr // it was rotated meanwhile
			}
			defer f.Close()
			readBoots(f, found)
			return nil
		})
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Boot) int { return a.Started.Compare(b.Started) })
}

// journal reads the entries of a journal file. Source:
// https://systemd.io/JOURNAL_FILE_FORMAT/.
type journal struct {
	in      io.ReaderAt
	entries []uint64
	found   map[string]Boot
}

func readBoots(in io.ReaderAt, found map[string]Boot) {
	const compact = 1 << 4
	header := make([]byte, 184)
	if _, err := in.ReadAt(header, 0); err != nil || string(header[:8]) != "LPKSHHRH" {
		return
	}
	j := journal{in: in, found: found}
	width := 8
	if binary.LittleEndian.Uint32(header[12:])&compact != 0 {
		width = 4
	}
	count := min(binary.LittleEndian.Uint64(header[152:]), journalMost)
	j.list(binary.LittleEndian.Uint64(header[176:]), width, count)
	if n := len(j.entries); n > 0 {
		j.between(0, n-1)
	}
}

// list reads the chain of arrays with the offsets of the entries. Each is after the one
// before it, or the file is damaged.
func (j *journal) list(at uint64, width int, count uint64) {
	head, number := make([]byte, 24), make([]byte, width)
	in := bufio.NewReader(nil)
	for at != 0 && uint64(len(j.entries)) < count {
		if _, err := j.in.ReadAt(head, int64(at)); err != nil || head[0] != 6 {
			return
		}
		size := binary.LittleEndian.Uint64(head[8:])
		next := binary.LittleEndian.Uint64(head[16:])
		items := min(max(size, 24)-24, (count-uint64(len(j.entries)))*uint64(width))
		// An array claims its size, and the file may end before.
		in.Reset(io.NewSectionReader(j.in, int64(at)+24, int64(items)))
		for {
			if _, err := io.ReadFull(in, number); err != nil {
				break
			}
			entry := uint64(binary.LittleEndian.Uint32(number))
			if width == 8 {
				entry = binary.LittleEndian.Uint64(number)
			}
			j.entries = append(j.entries, entry)
		}
		if next <= at {
			return
		}
		at = next
	}
}

// between notes the boots of the entries from first to last. Boots follow each other, so
// entries between two of the same boot are of it too.
func (j *journal) between(first, last int) {
	a, b := j.note(first), j.note(last)
	if a == b || last-first < 2 {
		return
	}
	middle := (first + last) / 2
	j.between(first, middle)
	j.between(middle, last)
}

// note adds the time of an entry to its boot.
func (j *journal) note(n int) string {
	entry := make([]byte, 56)
	if _, err := j.in.ReadAt(entry, int64(j.entries[n])); err != nil || entry[0] != 3 {
		return ""
	}
	at := time.UnixMicro(int64(binary.LittleEndian.Uint64(entry[24:]))).UTC()
	id := hex.EncodeToString(entry[40:])
	boot, known := j.found[id]
	switch {
	case !known && len(j.found) < bootsMost:
		boot = Boot{at, at}
	case !known:
		return id
	case at.Before(boot.Started):
		boot.Started = at
	case at.After(boot.Ended):
		boot.Ended = at
	}
	j.found[id] = boot
	return id
}
