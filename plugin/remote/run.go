package remote

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// ending is how a remote command ended.
type ending struct {
	status int
	err    error // it could not be started
	silent error // why nothing more is expected of a command that has not ended
}

// String implements fmt.Stringer.
func (e ending) String() string {
	if e.lost() {
		return "no exit status"
	}
	return fmt.Sprintf("exit status %d", e.status)
}

// lost reports whether the exit status was not received: the SSH communicator saw
// the connection end, or Packer's own connection to the communicator ended (123).
func (e ending) lost() bool {
	return e.status == packersdk.CmdDisconnect || e.status == 123
}

// start runs line on the machine. The channel receives its end, once. Some
// communicators ignore the context in Start or in the wait for the end, so both run
// in a goroutine, and the caller may stop waiting.
func start(ctx context.Context, comm packersdk.Communicator, line string, stdin io.Reader, stdout, stderr io.Writer) <-chan ending {
	over := make(chan ending, 1)
	go func() {
		cmd := &packersdk.RemoteCmd{Command: line, Stdin: stdin, Stdout: stdout, Stderr: stderr}
		if err := comm.Start(ctx, cmd); err != nil {
			over <- ending{err: err}
			return
		}
		over <- ending{status: cmd.Wait()}
	}()
	return over
}

// output runs line on the machine until the command or ctx ends, and returns what
// the command has printed.
func output(ctx context.Context, comm packersdk.Communicator, line string) (stdout, stderr string, end ending, err error) {
	var out, errs text
	select {
	case end = <-start(ctx, comm, line, nil, &out, &errs):
		if err = end.err; err != nil {
			err = fmt.Errorf("starting a command on the machine: %w", err)
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return out.String(), errs.String(), end, err
}

// text is a buffer that may be read while a command still writes to it. It keeps
// at least the last textKept bytes, and at most twice as many.
type text struct {
	mu   sync.Mutex
	data []byte
}

const textKept = 256 << 10

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - textKept; over > textKept {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.data)
}

// lastWords is the end of a command's output, on one line.
func lastWords(s string) string {
	const most = 600
	s = show.Line(strings.Join(strings.FieldsFunc(strings.TrimSpace(s), func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
	if len(s) > most {
		s = "… " + s[len(s)-most:]
	}
	return s
}
