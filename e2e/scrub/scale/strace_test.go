package scale

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTotal(t *testing.T) {
	n, err := total("    calls syscall\n--------- ------\n       12 unlinkat\n--------- ------\n       34 total\n")
	require.NoError(t, err)
	assert.Equal(t, 34, n)
	_, err = total("")
	assert.EqualError(t, err, "reading strace's summary: it has no total")
}
