package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestCheck(t *testing.T) {
	for row := range strings.Lines(testkit.Content(t, "testdata/lines.txt")) {
		want, line, isRow := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		if !isRow {
			continue
		}
		err := Check(line, "kubectl")
		if want == "" {
			assert.NoError(t, err, line)
			continue
		}
		assert.ErrorContains(t, err, want, line)
	}
	assert.True(t, Operation("eks:DescribeCluster"))
	assert.False(t, Operation("eks:DescribeClusters"))
}
