package remote

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOutputIsSplitIntoLines(t *testing.T) {
	for name, test := range map[string]struct {
		writes []string
		want   []string
	}{
		"whole lines":           {[]string{"one\ntwo\n"}, []string{"one", "two"}},
		"in pieces":             {[]string{"o", "ne\nt", "wo\n"}, []string{"one", "two"}},
		"without an end":        {[]string{"one\ntwo"}, []string{"one", "two"}},
		"with carriage returns": {[]string{"one\r\n", "two\r\n"}, []string{"one", "two"}},
		"empty lines":           {[]string{"\n\none\n\n"}, []string{"one"}},
		"nothing":               {nil, nil},
		"too long":              {[]string{strings.Repeat("x", 25), "y\n"}, []string{"xxxxxxxxxx", "xxxxxxxxxx", "xxxxxy"}},
		"too long at once":      {[]string{strings.Repeat("x", 25) + "\ny\n"}, []string{"xxxxxxxxxx", "xxxxxxxxxx", "xxxxx", "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			l := &lines{most: 10, each: func(line []byte) { got = append(got, string(line)) }}
			for _, w := range test.writes {
				n, err := l.Write([]byte(w))
				assert.NoError(t, err)
				assert.Equal(t, len(w), n)
			}
			l.Flush()
			assert.Equal(t, test.want, got)
		})
	}
}
