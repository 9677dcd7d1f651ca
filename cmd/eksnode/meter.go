//go:build !agent

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/snapshot"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/console"
)

// How often a meter prints: in a line that changes, or in a new line.
const (
	changesEvery  = time.Second / 2
	newLinesEvery = 10 * time.Second
)

// meter prints the progress of a transfer on standard error: in one line that changes,
// if that is a terminal, or else in a new line every ten seconds.
type meter struct {
	*console.Transfer
	w        io.Writer
	terminal bool

	mutex sync.Mutex
	open  bool // the line that changes is on the screen
}

func newMeter(w io.Writer) *meter {
	file, isFile := w.(*os.File)
	m := &meter{w: w, terminal: isFile && term.IsTerminal(int(file.Fd()))}
	m.Transfer = &console.Transfer{Say: m.show, Now: time.Now, Every: newLinesEvery}
	if m.terminal {
		m.Every = changesEvery
	}
	return m
}

func (m *meter) upload(p snapshot.Progress) { m.Print(p.Bytes()) }

// fetched takes the state of a download, in bytes.
func (m *meter) fetched(done, total int64) { m.Print(done, done, total) }

// show prints a line that is due.
func (m *meter) show(text string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.terminal {
		fmt.Fprintf(m.w, "%s%s", eraseLine, text)
		m.open = true
		return
	}
	fmt.Fprintln(m.w, text)
}

// eraseLine goes to the beginning of the line and erases the line (ECMA-48).
const eraseLine = "\r\x1b[K"

// say prints a line of another kind.
func (m *meter) say(format string, args ...any) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.erase()
	newPrinter(m.w).line(format, args...)
}

func (m *meter) end() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.erase()
}

// erase erases the line that changes. The caller holds the mutex.
func (m *meter) erase() {
	if m.open {
		fmt.Fprint(m.w, eraseLine)
		m.open = false
	}
}
