package distros

import (
	"context"
	"regexp"
	"sync"
	"time"
)

// watch collects a command's output, and stops the command when the output ends in
// a message of waiting and the limit has ended.
type watch struct {
	waits *regexp.Regexp
	limit context.Context
	stop  func()
	// end removes the hook on limit.
	end func() bool

	mutex sync.Mutex
	text  []byte
}

// watchMost is how much output watch keeps, in bytes: a cause comes before the
// end, but not before more than the lists of packages.
const watchMost = 4 << 20

// settling is how long a message of waiting may take until it is complete: the
// lines after the first name the processes.
const settling = time.Second

func newWatch(waits string, limit context.Context, stop func()) *watch {
	w := &watch{waits: regexp.MustCompile(waits), limit: limit, stop: stop}
	w.end = context.AfterFunc(limit, w.check)
	return w
}

// Write implements io.Writer.
func (w *watch) Write(p []byte) (int, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.text = append(w.text, p...)
	if len(w.text) > watchMost {
		w.text = append([]byte(nil), w.text[len(w.text)-watchMost/2:]...)
	}
	if w.limit.Err() != nil {
		time.AfterFunc(settling, w.check)
	}
	return len(p), nil
}

// check stops a command that waits.
func (w *watch) check() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waits.Match(w.text) {
		w.stop()
	}
}

func (w *watch) output() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return string(w.text)
}
