package binsize

import (
	"context"
	"go/format"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestProbeSourceIsAProgram(t *testing.T) {
	for _, set := range [][]Probe{nil, AgentProbes()[:1], AgentProbes()} {
		_, err := format.Source([]byte(probeSource(set)))
		require.NoError(t, err)
	}
}

// A dependency adds less on top of another one that has most of it already.
func TestAdditions(t *testing.T) {
	probes := []Probe{
		{Name: "json", Imports: []string{"encoding/json"}, Use: "json.NewEncoder(out).Encode(in)"},
		{Name: "indented", Imports: []string{"encoding/json"}, Use: "json.NewEncoder(out).SetIndent(os.Args[1], os.Args[0])"},
	}
	base, all, err := Additions(t.Context(), ".", probes)
	require.NoError(t, err)
	assert.Greater(t, base.Stripped, base.Compressed)
	assert.Equal(t, []string{"json", "indented"}, []string{all[0].Name, all[1].Name})
	for _, a := range all {
		assert.Positive(t, a.Alone.Stripped, a)
		assert.Positive(t, a.Alone.Compressed, a)
	}
	assert.Less(t, all[1].OnTop.Stripped, all[1].Alone.Stripped/2)
}

func TestAdditionsOfWhatDoesNotBuild(t *testing.T) {
	_, _, err := Additions(context.Background(), ".", []Probe{{Name: "broken", Use: "nonsense"}})
	require.ErrorContains(t, err, "building a probe of broken: ")
	require.ErrorContains(t, err, "undefined: nonsense")
}
