package main

import (
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Each leftover is one action of its rule; otherwise the block would have
// another number of steps than there are commands.
func TestLeftovers(t *testing.T) {
	assert.Len(t, leftoverPaths(), 100)
	for _, l := range leftovers {
		i := slices.IndexFunc(scrub.Table(), func(r scrub.Rule) bool { return r.ID == l.rule })
		require.NotEqual(t, -1, i, l.rule)
		assert.Contains(t, scrub.Table()[i].Paths, path.Join(l.folder, "*"))
	}
}

func TestLeftoverScripts(t *testing.T) {
	shellcheck(t, layLeftovers(leftoverPaths()))
	shellcheck(t, noLeftovers(leftoverPaths()))
}
