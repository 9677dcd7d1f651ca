package base

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAbsent(t *testing.T) {
	tests := map[string]struct {
		packages []string
		status   string
		want     []string
	}{
		"all there":           {[]string{"a", "b"}, "installed a\ninstalled b\n", nil},
		"one unknown":         {[]string{"a", "b"}, "installed a\n", []string{"b"}},
		"removed, not purged": {[]string{"a"}, "config-files a\n", []string{"a"}},
		"another's prefix":    {[]string{"a"}, "installed ab\n", []string{"a"}},
		"none asked":          {nil, "", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, absent(test.packages, test.status))
		})
	}
}

func TestMissingAsksDpkg(t *testing.T) {
	names, err := missing(t.Context(), []string{"dpkg", "eksnode-has-no-such-package"})
	require.NoError(t, err)
	assert.Equal(t, []string{"eksnode-has-no-such-package"}, names)
}

func TestInstallIsSilentWhenAllIsThere(t *testing.T) {
	var log bytes.Buffer
	require.NoError(t, Install(t.Context(), &log, "dpkg", "apt"))
	assert.Empty(t, log.String())
}
