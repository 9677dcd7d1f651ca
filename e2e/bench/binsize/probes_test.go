package binsize

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImportsAndOf(t *testing.T) {
	imports, err := Imports(t.Context(), ".", "github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest")
	require.NoError(t, err)
	assert.Contains(t, imports, "slices")
	assert.NotContains(t, imports, "net/http")

	imports, err = Imports(t.Context(), ".", "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode")
	require.NoError(t, err)
	assert.Contains(t, imports, "github.com/spf13/cobra")
	assert.NotContains(t, imports, "github.com/aws/aws-sdk-go-v2/service/ec2", "the agent is without what asks AWS for a desk")

	imports, err = Imports(t.Context(), ".", "github.com/eksnode/packer-plugin-eksnode/e2e/bench/contest")
	require.NoError(t, err)
	probes := []Probe{{Name: "both", Imports: []string{"slices", "net/http"}}, {Name: "one", Imports: []string{"slices"}}, {Name: "other", Imports: []string{"net/http"}}}
	assert.Equal(t, []Probe{probes[1]}, Of(probes, imports))
	assert.Len(t, probes, 3)
	assert.Equal(t, "both", probes[0].Name, "the table itself stays")

	_, err = Imports(t.Context(), ".", "./not-there")
	require.ErrorContains(t, err, "listing what ./not-there imports: ")
}
