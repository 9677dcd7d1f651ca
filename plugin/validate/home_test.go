package validate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHomeReplacesTheTilde(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for path, want := range map[string]string{
		"~/reports/x.json": "/home/me/reports/x.json", "~": "/home/me", "~/": "/home/me", "": "", "/x/~/y": "/x/~/y", "./~/x": "./~/x", "<unknown>": "<unknown>",
	} {
		got := path
		require.NoError(t, Home("report", &got))
		assert.Equal(t, want, got)
	}
	other := "~you/x"
	require.EqualError(t, Home("report", &other), "report: ~you/x begins with ~you: only ~/ is replaced by a home folder; write the whole path, or ./~you/x for a folder of that name")
	t.Setenv("HOME", "")
	mine := "~/x"
	require.EqualError(t, Home("report", &mine), "report: finding the home folder for ~/x: $HOME is not defined")
}
