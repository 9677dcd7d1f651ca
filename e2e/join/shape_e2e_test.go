//go:build e2e && full

package join_test

import (
	"flag"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/shape"
)

var distro = flag.String("distro", "", "run TestChainOnShapes only on this shape")

// The chain of TestChain on machines of other distributions' shapes.
func TestChainOnShapes(t *testing.T) {
	shapes := shape.All()
	names := slices.Sorted(maps.Keys(shapes))
	if *distro != "" {
		require.Contains(t, names, *distro)
		names = []string{*distro}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s := shapes[name]
			chain(t, lab.System{Shape: &s}, "chain-"+name)
		})
	}
}
