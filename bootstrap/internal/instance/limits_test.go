package instance

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The values of amazon-eks-ami's eni-max-pods.txt.
func TestMaxPodsOfKnownTypes(t *testing.T) {
	for name, want := range map[string]int{
		"t3.nano": 4, "t3.medium": 17, "m5.large": 29, "m5.xlarge": 58, "m5.24xlarge": 737, "c5.metal": 737,
		"p4d.24xlarge": 737, "p5.48xlarge": 100, "m8g.medium": 8, "i4i.32xlarge": 737,
	} {
		l, ok := LimitsOf(name)
		require.True(t, ok, name)
		assert.Equal(t, want, l.MaxPods(), name)
	}
}

func TestUnknownTypesAreUnknown(t *testing.T) {
	for _, name := range []string{"", "m5", "5.large", "m5.larg", "z99.large", "#", "# Generated", "2", "15"} {
		_, ok := LimitsOf(name)
		assert.False(t, ok, name)
	}
}

func TestTheTableIsWhole(t *testing.T) {
	types := 0
	for line := range strings.Lines(limits) {
		if line[0] == '#' {
			continue
		}
		for _, name := range strings.Fields(line)[2:] {
			types++
			l, ok := LimitsOf(name)
			assert.True(t, ok && l.MaxPods() > 2, name)
		}
	}
	assert.Greater(t, types, 1400)
}
