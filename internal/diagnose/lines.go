package diagnose

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
)

// lineMost is how much of a line is searched, in bytes.
const lineMost = 4 << 20

// eachLine reads a text line by line. A line that a program wrapped in JSON is
// unwrapped and keeps its number.
func (s *Search) eachLine(text io.Reader, do func(number int, line string, e journalEntry)) error {
	in := bufio.NewReaderSize(text, 64<<10)
	var form lineForm
	for number := 1; ; number++ {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		line, err := oneLine(in)
		if line != "" || err == nil {
			s.lines++
			for _, one := range form.lines(line) {
				do(number, one.line, one.entry)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// oneLine reads a line without its end and drops the part beyond lineMost.
func oneLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part[:min(len(part), lineMost-len(line))]...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return strings.TrimRight(string(line), "\r\n"), err
		}
	}
}
