package shape

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/distros"
)

func TestProofsOfShapes(t *testing.T) {
	shapes := map[string]bool{}
	for _, s := range All() {
		shapes[s.ID] = true
	}
	for _, d := range distros.All() {
		assert.Equal(t, d.Tested == distros.ShapeTested, shapes[d.ID], "%s: a distribution with a shape joins on it, and only such a distribution", d.ID)
	}
}
