package cluster

import (
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/require"
)

var _ packersdk.Datasource = new(Datasource)

func TestConfigureRefusesWrongFields(t *testing.T) {
	var d Datasource
	err := d.Configure(map[string]any{"max_attempts": 101, "external_id": "x"})
	for _, want := range []string{"* name: the cluster's name is missing", "* max_attempts: 101 must be from 1 to 100", "* external_id has no effect without assume_role"} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, d.Configure(map[string]any{"name": "<unknown>", "region": "<unknown>"}))
}
