package report

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseLoad(t *testing.T) {
	before, err := parseLoad("0.52 0.58 0.59 3/917 8323\n", "cpu  100 0 50 800 50 0 0 0 7 7\ncpu0 1 2 3\n")
	require.NoError(t, err)
	assert.Equal(t, Load{Average: 0.52, Busy: 150, Ticks: 1000}, before)
	after, err := parseLoad("1.00 0.58 0.59 3/917 8323\n", "cpu  150 10 60 810 60 0 5 5 9 9\n")
	require.NoError(t, err)
	assert.Equal(t, 0.8, after.BusySince(before))
	assert.Zero(t, before.BusySince(before))

	_, err = parseLoad("", "cpu  1 2 3")
	require.ErrorContains(t, err, "reading the machine's load")
	_, err = parseLoad("1 2", "intr 1")
	require.EqualError(t, err, `reading the machine's load: /proc/stat begins with "intr 1"`)
	_, err = parseLoad("1 2", "cpu  1 x")
	require.ErrorContains(t, err, "reading the machine's load")
}

func TestReadLoad(t *testing.T) {
	l, err := ReadLoad()
	require.NoError(t, err)
	assert.Positive(t, l.Ticks)
	assert.LessOrEqual(t, l.Busy, l.Ticks)
}
