package userdata

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// verdicts are those of Amazon's nodeadm, and of first boot.
//
//go:embed testdata/nodeadm.tsv
var verdicts string

// Check gives the verdicts of Amazon's nodeadm and of first boot: user data that first
// boot does not read fails, and user data that only Amazon's does not read is a warning.
func TestVerdictsAboutFormsOfNodeConfigs(t *testing.T) {
	seen := map[string][]string{}
	for line := range strings.Lines(verdicts) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); !strings.HasPrefix(line, "#") {
			seen[fields[2]] = fields[:2]
		}
	}
	forms := nodeConfigForms(t)
	require.Len(t, seen, len(forms), "forms have names of their own")
	yes := func(reads bool) string { return map[bool]string{true: "yes", false: "no"}[reads] }
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			require.Contains(t, seen, f.name)
			amazon, image := seen[f.name][0], seen[f.name][1]
			assert.Equal(t, amazon, yes(readByAmazon([]byte(f.text), true) == nil), "Amazon's image")
			config, _, err := nodeconfig.Parse([]byte(f.text))
			if err == nil {
				err = config.Validate()
			}
			assert.Equal(t, image, yes(err == nil), "this image: %v", err)
			report, err := Check([]byte(f.text), "")
			if image == "no" {
				assert.True(t, err != nil || report.Failed(), "first boot does not read the form, and the check passes")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "al2023", report.Family)
			require.Len(t, report.Readers, 2)
			assert.Equal(t, Reader{Image: ThisImage, Reads: true}, report.Readers[0])
			assert.Equal(t, amazon == "yes", report.Readers[1].Reads)
			refused := AmazonsImage + " does not read the user data: " + report.Readers[1].Reason
			assert.Equal(t, amazon == "no", slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Warning && p.Text == refused }))
		})
	}
}
