package remote

import "bytes"

// lineMost bounds one line of the agent: the report is one, and the largest
// one seen is below a megabyte. A longer one is handed on in pieces, which
// are then no events.
const lineMost = 64 << 20

// lines is a writer that hands on whole lines without their ends. What has no
// end is handed on by Flush.
type lines struct {
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	written := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			break
		}
		l.rest = append(l.rest, p[:i]...)
		l.Flush()
		p = p[i+1:]
	}
	l.rest = append(l.rest, p...)
	if len(l.rest) > lineMost {
		l.Flush()
	}
	return written, nil
}

// Flush hands on what is left, unless it is empty.
func (l *lines) Flush() {
	if line := bytes.TrimRight(l.rest, "\r"); len(line) > 0 {
		l.each(line)
	}
	l.rest = l.rest[:0]
}
