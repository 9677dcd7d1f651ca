package remote

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// amazon-chroot runs every command in double quotes of a shell on the Packer host.
// That shell would expand these characters on the wrong machine.
func TestCommandsAreSafeInDoubleQuotes(t *testing.T) {
	for name, line := range map[string]string{
		"probe": probeCommand("0123456789abcdef", "/tmp", "sudo -n --"),
		"agent": agentCommand("0123456789abcdef", "/tmp/eksnode-0123456789abcdef", 3000000, "", "sudo -n --"),
		"kept":  agentCommand("0123456789abcdef", "/tmp/eksnode-0123456789abcdef", 3000000, strings.Repeat("a", 64), "sudo -n --"),
		"clean": cleanCommand("/tmp/eksnode-0123456789abcdef"),
	} {
		t.Run(name, func(t *testing.T) {
			assert.NotContains(t, line[len("sh -c '"):len(line)-1], "'")
			assert.NotContains(t, line, "\n")
			for _, c := range []string{"$", "`", `\`, "!"} {
				assert.NotContains(t, line, c)
			}
		})
	}
}

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

func TestFeedSendsHeartbeatsAfterTheRequest(t *testing.T) {
	f := newFeed(strings.NewReader("agent and request\n"), time.Millisecond)
	f.begin()
	defer f.hangUp()
	data := make([]byte, len("agent and request\n\n\n"))
	_, err := io.ReadFull(f, data)
	require.NoError(t, err)
	assert.Equal(t, "agent and request\n\n\n", string(data))
}

func TestFeedEndsWhenHungUp(t *testing.T) {
	f := newFeed(strings.NewReader("never read"), time.Hour)
	f.hangUp()
	f.hangUp()
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	assert.Empty(t, data)
}

// A reader that waits for the next heartbeat ends at once.
func TestFeedEndsWhileAReaderWaits(t *testing.T) {
	f := newFeed(strings.NewReader("head"), time.Hour)
	f.begin()
	read := make(chan string)
	go func() {
		data, err := io.ReadAll(f)
		assert.NoError(t, err)
		read <- string(data)
	}()
	f.hangUp()
	assert.True(t, strings.HasPrefix("head", <-read))
}

func TestFeedReturnsErrorsOfItsReader(t *testing.T) {
	f := newFeed(io.MultiReader(strings.NewReader("a"), failingReader{}), time.Hour)
	f.begin()
	defer f.hangUp()
	_, err := io.ReadAll(f)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
