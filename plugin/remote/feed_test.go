package remote

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
