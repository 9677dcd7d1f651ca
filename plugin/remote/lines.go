package remote

import "bytes"

// asideMost bounds one line of standard error.
const asideMost = 64 << 10

// lines is a writer that calls each with whole lines, without line ends. Flush
// passes on the last line. A line of more than most bytes is passed on in pieces.
type lines struct {
	most int
	each func(line []byte)
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		piece, rest, ends := p, []byte(nil), false
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			piece, rest, ends = p[:i], p[i+1:], true
		}
		if room := l.most - len(l.rest); len(piece) > room {
			piece, rest, ends = p[:room], p[room:], true
		}
		l.rest = append(l.rest, piece...)
		if ends {
			l.Flush()
		}
		p = rest
	}
	return written, nil
}

// Flush passes on the last line unless that line is empty.
func (l *lines) Flush() {
	if line := bytes.TrimRight(l.rest, "\r"); len(line) > 0 {
		l.each(line)
	}
	l.rest = l.rest[:0]
}
