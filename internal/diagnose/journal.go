package diagnose

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// journalMagic begins the files of systemd's journal.
const journalMagic = "LPKSHHRH"

// Journal is a function that returns the text of journal files, in order of time.
type Journal func(files ...string) io.Reader

// WithJournal makes the search read systemd's journal files with a program of this
// machine.
func (s *Search) WithJournal(read Journal) *Search {
	s.readJournal = read
	return s
}

// Journals searches journal files, which are parts of one journal.
func (s *Search) Journals(name string, files ...string) error {
	if s.readJournal == nil {
		return fmt.Errorf("reading %s: %s", show.Line(name), journalHint)
	}
	return s.Log(Log{Name: show.Line(name), Text: s.readJournal(files...)})
}

// folderJournal searches the journal files of a folder together: a journal has
// several files, each with a part of the time.
func (s *Search) folderJournal(folder string) error {
	parts := s.journals
	s.journals = nil
	if len(parts) == 0 {
		return nil
	}
	name := filepath.Join(folder, "*.journal")
	if len(parts) == 1 {
		name = parts[0].name
	}
	return s.Journals(name, show.Each(parts, func(part source) string { return part.file })...)
}

const journalHint = "the file is a systemd journal, and this machine has no journalctl; save the output of " +
	"`journalctl --file` on another machine, and name that file"

// journal reads a journal file. Only a whole file can be read, so that of an archive
// is copied.
func (s *Search) journal(from source) error {
	if s.readJournal == nil {
		if !from.named {
			s.passed = append(s.passed, show.Line(from.name))
			return nil
		}
		return fmt.Errorf("reading %s: %s", show.Line(from.name), journalHint)
	}
	if from.file != "" && !from.named { // one part of the folder's journal
		s.journals = append(s.journals, from)
		return nil
	}
	if from.file != "" {
		return s.Journals(from.name, from.file)
	}
	copied, err := os.CreateTemp("", "eksnode-*.journal")
	if err != nil {
		return fmt.Errorf("copying %s: %w", show.Line(from.name), err)
	}
	in := from.in
	if from.depth == 1 { // a stream, which nothing bounds yet
		in = &expanded{in, s}
	}
	_, err = io.Copy(copied, in)
	err = errors.Join(err, copied.Close())
	if err == nil {
		err = s.Journals(from.name, copied.Name())
	}
	if err = errors.Join(err, os.Remove(copied.Name())); err != nil {
		return fmt.Errorf("reading the journal %s: %w", show.Line(from.name), err)
	}
	return nil
}
