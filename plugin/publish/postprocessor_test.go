package publish

import (
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/require"
)

var _ packersdk.PostProcessor = new(PostProcessor)

func TestConfigureRefusesWrongFields(t *testing.T) {
	var p PostProcessor
	require.ErrorContains(t, p.Configure(map[string]any{"region": "x"}), "* parameter: the SSM parameter's name is missing\n* region: the image's regions are taken; leave it out")
	require.ErrorContains(t, p.Configure(map[string]any{"parameter": "a b"}), `* parameter: "a b" is not a parameter name such as /my-node/stable`)
	require.NoError(t, p.Configure(map[string]any{"parameter": "<unknown>"}))
}
