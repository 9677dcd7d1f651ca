package main_test

import (
	"crypto/x509"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plugin/ami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/baseami"
	"github.com/eksnode/packer-plugin-eksnode/plugin/cluster"
	"github.com/eksnode/packer-plugin-eksnode/plugin/contents"
	"github.com/eksnode/packer-plugin-eksnode/plugin/disk"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/publish"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

type fields = map[string]any

// component is a provisioner or a post-processor.
type component struct {
	kind, page string
	spec       hcldec.ObjectSpec
	check      func(...any) error
}

func components() map[string]component {
	e, s, a, d := new(eksnode.Provisioner), new(scrub.Provisioner), new(ami.PostProcessor), new(disk.Builder)
	u := new(scrub.Audit)
	return map[string]component{
		"eksnode":       {"provisioner", "provisioner-eksnode", e.ConfigSpec(), e.Prepare},
		"eksnode-scrub": {"provisioner", "provisioner-eksnode-scrub", s.ConfigSpec(), s.Prepare},
		"eksnode-audit": {"provisioner", "provisioner-eksnode-audit", u.ConfigSpec(), u.Prepare},
		"eksnode-ami":   {"post-processor", "post-processor-ami", a.ConfigSpec(), a.Configure},
		"eksnode-disk":  {"builder", "builder-disk", d.ConfigSpec(), func(raws ...any) error { _, _, err := d.Prepare(raws...); return err }},
	}
}

// everyField returns a value for each field of each component, of testdata/every-field.yaml.
func everyField(t *testing.T) map[string]fields {
	t.Helper()
	folder, err := filepath.Abs("testdata")
	require.NoError(t, err)
	text := strings.ReplaceAll(testkit.Content(t, "testdata/every-field.yaml"), "$TESTDATA", folder)
	var all map[string]fields
	require.NoError(t, yaml.Unmarshal([]byte(text), &all))
	authority, _ := testkit.Certificate(t, x509.Certificate{IsCA: true})
	all["eksnode"]["ca_certificates"] = fields{"example": string(authority)}
	for name, c := range components() {
		for field := range c.spec {
			if !strings.HasPrefix(field, "packer_") { // Packer's own
				require.Contains(t, all[name], field, "a field of %s has no value in every-field.yaml", name)
			}
		}
	}
	return all
}

// unknown returns the values that packer passes to Prepare for a value that is
// wholly or partly unknown.
func unknown(value any) []any {
	const later = "<unknown>"
	switch value := value.(type) {
	case bool:
		return []any{false}
	case int:
		return []any{0}
	case []any:
		return []any{[]any{}, []any{later}}
	case fields:
		parts := fields{}
		for key := range value {
			parts[key] = later
		}
		return []any{fields{}, parts}
	default:
		return []any{later, "/opt/" + later}
	}
}

// The page of each component lists every field. The names of Packer's common fields, such
// as `only`, are reserved.
func TestEveryFieldIsOnItsPage(t *testing.T) {
	reserved := []string{"name", "pause_before", "max_retries", "timeout", "only", "except", "override"}
	for name, c := range components() {
		page := testkit.Content(t, "../docs/reference/components/"+c.page+".md")
		for field := range c.spec {
			if !strings.HasPrefix(field, "packer_") {
				assert.NotContains(t, reserved, field, name)
				assert.Contains(t, page, "\n- `"+field+"` (", "%s", name)
			}
		}
	}
}

// An unknown field at validate never makes a component refuse other fields.
func TestEveryFieldMayBeUnknown(t *testing.T) {
	for name, all := range everyField(t) {
		t.Run(name, func(t *testing.T) {
			check := components()[name].check
			require.NoError(t, check(all))
			nothing := fields{}
			for field, value := range all {
				for _, later := range unknown(value) {
					one := maps.Clone(all)
					one[field] = later
					assert.NoError(t, check(one), "%s is %q", field, later)
				}
				nothing[field] = unknown(value)[0]
			}
			require.NoError(t, check(nothing))
		})
	}
}

// The cases are in testdata/fields.yaml.
func TestWrongFieldsAreRefused(t *testing.T) {
	checks := map[string]func(...any) error{
		"eksnode-publish": new(publish.PostProcessor).Configure, "eksnode-cluster": new(cluster.Datasource).Configure,
		"eksnode-base-ami": new(baseami.Datasource).Configure, "eksnode-contents": new(contents.Datasource).Configure,
	}
	for name, c := range components() {
		checks[name] = c.check
	}
	var cases map[string]struct {
		Base     fields
		Accepted []fields
		Refused  map[string]fields
	}
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/fields.yaml")), &cases))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check := func(block fields) error {
				all := maps.Clone(c.Base)
				if all == nil {
					all = fields{}
				}
				maps.Copy(all, block)
				return checks[name](all)
			}
			for _, block := range c.Accepted {
				assert.NoError(t, check(block), "%v", block)
			}
			for want, block := range c.Refused {
				err := check(block)
				require.Error(t, err, want)
				_, text, joined := strings.Cut(err.Error(), "occurred:\n\n* ")
				if !joined { // it is about what the block has
					text = err.Error()
				}
				pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
				assert.Regexp(t, "^"+pattern+"$", strings.ReplaceAll(text, "\n* ", "\n"))
			}
		})
	}
}
