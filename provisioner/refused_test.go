package provisioner

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

func TestRefusedSpecs(t *testing.T) {
	known := strings.NewReplacer("{distributions}", strings.Join(distros.IDs(), ", "),
		"{assets}", strings.Join(asset.IDs(), ", "))
	var rows []struct {
		Name, Release, Error string
		Spec                 json.RawMessage
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/refused.yaml")), &rows))
	for _, r := range rows {
		t.Run(cmp.Or(r.Name, r.Error), func(t *testing.T) {
			spec := Spec{KubernetesVersion: "1.34.4"}
			require.NoError(t, json.Unmarshal(r.Spec, &spec))
			err := spec.Validate()
			if r.Release != "" {
				_, err = Steps(spec, releaseOf(t, r.Release), Inputs{Arch: "amd64"})
			}
			require.EqualError(t, err, known.Replace(r.Error))
		})
	}
}
