package checks

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	goversion "github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/eksnode/packer-plugin-eksnode/internal/packercheck"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
	"github.com/eksnode/packer-plugin-eksnode/plugin/scrub"
)

// provisioner is the common interface of the plugin's provisioners.
type provisioner interface {
	ConfigSpec() hcldec.ObjectSpec
	Prepare(...any) error
}

func provisioners() map[string]provisioner {
	return map[string]provisioner{
		"eksnode": &eksnode.Provisioner{}, "eksnode-scrub": &scrub.Provisioner{}, "eksnode-audit": &scrub.Audit{},
	}
}

// packersOwn are the fields of every provisioner that Packer handles itself and
// plugins do not see.
var packersOwn = &hcl.BodySchema{
	Attributes: []hcl.AttributeSchema{
		{Name: "name"}, {Name: "only"}, {Name: "except"}, {Name: "pause_before"}, {Name: "max_retries"}, {Name: "timeout"}, {Name: "override"},
	},
}

// values replace everything that a template can refer to. Packer knows these
// values only when it runs.
var values = &hcl.EvalContext{Variables: map[string]cty.Value{
	"var": cty.DynamicVal, "local": cty.DynamicVal, "source": cty.DynamicVal, "data": cty.DynamicVal, "build": cty.DynamicVal, "path": cty.DynamicVal,
}}

// template is HCL that users copy.
type template struct{ name, text string }

// templates returns the pages' HCL blocks and the examples.
func templates(t *testing.T) []template {
	t.Helper()
	var list []template
	for i, b := range blocks(t, "hcl") {
		list = append(list, template{fmt.Sprintf("%s, block %d", b.page, i+1), b.text})
	}
	for _, name := range tracked(t) {
		if strings.HasPrefix(name, "examples/") && path.Ext(name) == ".hcl" {
			list = append(list, template{name, read(t, name)})
		}
	}
	return list
}

func TestTemplatesMatchThePlugin(t *testing.T) {
	used := map[string]int{}
	for _, one := range templates(t) {
		t.Run(one.name, func(t *testing.T) {
			for _, b := range parseHCL(t, one) {
				used[b.Type]++
				require.NoError(t, problems(b))
			}
		})
	}
	assert.NotZero(t, used["provisioner"])
	assert.NotZero(t, used["packer"])
}

// parseHCL returns a template's blocks and the inner blocks of its build
// blocks.
func parseHCL(t *testing.T, one template) []*hclsyntax.Block {
	t.Helper()
	file, diagnostics := hclparse.NewParser().ParseHCL([]byte(one.text), one.name)
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	var list []*hclsyntax.Block
	for _, b := range file.Body.(*hclsyntax.Body).Blocks {
		list = append(list, b)
		if b.Type == "build" {
			list = append(list, b.Body.Blocks...)
		}
	}
	return list
}

// problems returns what the plugin, or Packer when it looks for the plugin,
// would refuse.
func problems(b *hclsyntax.Block) error {
	switch b.Type {
	case "provisioner":
		return provisionerProblems(b)
	case "packer":
		return requirementProblems(b)
	default:
		return nil
	}
}

func provisionerProblems(b *hclsyntax.Block) error {
	if !strings.HasPrefix(b.Labels[0], "eksnode") {
		return nil
	}
	p, ok := provisioners()[b.Labels[0]]
	if !ok {
		return fmt.Errorf("the plugin has no provisioner %s", b.Labels[0])
	}
	_, own, diagnostics := b.Body.PartialContent(packersOwn)
	if diagnostics.HasErrors() {
		return diagnostics
	}
	value, diagnostics := hcldec.Decode(own, p.ConfigSpec(), values)
	if diagnostics.HasErrors() {
		return diagnostics
	}
	fields, err := asPackerSends(value)
	if err != nil {
		return err
	}
	return p.Prepare(fields)
}

// asPackerSends returns the fields that are set, with Packer's placeholder for
// unknown values.
func asPackerSends(value cty.Value) (map[string]any, error) {
	fields := map[string]any{}
	for name, v := range value.AsValueMap() {
		switch {
		case v.IsNull():
		case !v.IsWhollyKnown() && v.Type() == cty.String:
			fields[name] = "<unknown>"
		case !v.IsWhollyKnown(): // unset lists and maps arrive empty
		default:
			text, err := ctyjson.Marshal(v, v.Type())
			if err != nil {
				return nil, err
			}
			var plain any
			if err := json.Unmarshal(text, &plain); err != nil {
				return nil, err
			}
			fields[name] = plain
		}
	}
	return fields, nil
}

// requirementProblems checks that a template requires the version of this
// plugin that this repository will release.
func requirementProblems(b *hclsyntax.Block) error {
	for _, required := range b.Body.Blocks {
		attribute, ok := required.Body.Attributes["eksnode"]
		if !ok {
			return fmt.Errorf("the template requires plugins, but not eksnode")
		}
		value, diagnostics := attribute.Expr.Value(nil)
		if diagnostics.HasErrors() {
			return diagnostics
		}
		fields := value.AsValueMap()
		if source := fields["source"].AsString(); source != "github.com/eksnode/eksnode" {
			return fmt.Errorf("the plugin's source is github.com/eksnode/eksnode, not %s", source)
		}
		constraint, err := goversion.NewConstraint(fields["version"].AsString())
		if err != nil {
			return err
		}
		if !constraint.Check(goversion.Must(goversion.NewVersion(version.Version))) {
			return fmt.Errorf("the template requires eksnode %s, but this version is %s", constraint, version.Version)
		}
	}
	return nil
}

func TestInvalidTemplatesAreFound(t *testing.T) {
	for text, want := range map[string]string{
		`provisioner "eksnode" { kubernetes_version = "1.34" }`:                                                         `kubernetes_version "1.34" must be complete`,
		`provisioner "eksnode" { kubernetes = "1.34.4" }`:                                                               "Unsupported argument",
		`provisioner "eksnode" {}`:                                                                                      "kubernetes_version",
		`provisioner "eksnode-scrub" { rules = ["no-such-rule"] }`:                                                      "no-such-rule",
		`provisioner "eksnode-init" {}`:                                                                                 "the plugin has no provisioner eksnode-init",
		"packer {\nrequired_plugins {\neksnode = { source = \"x\", version = \"1\" }\n}\n}":                             "not x",
		"packer {\nrequired_plugins {\neksnode = { source = \"github.com/eksnode/eksnode\", version = \"> 99\" }\n}\n}": "the template requires eksnode > 99",
	} {
		var found string
		for _, b := range parseHCL(t, template{"x.pkr.hcl", text}) {
			if err := problems(b); err != nil {
				found += err.Error()
			}
		}
		assert.Contains(t, found, want, text)
	}
	for _, text := range []string{
		`provisioner "eksnode" { kubernetes_version = var.version }`,
		`provisioner "eksnode-scrub" { only = ["amazon-ebs.x"] }`,
		`provisioner "shell" { inline = ["true"] }`,
	} {
		for _, b := range parseHCL(t, template{"x.pkr.hcl", text}) {
			assert.NoError(t, problems(b), text)
		}
	}
}

// `eksnode check` finds nothing in the templates of the pages and the examples, no missing
// tag either. A page's template may lack its source.
func TestTemplatesPassEksnodeCheck(t *testing.T) {
	count := 0
	for _, one := range templates(t) {
		if !strings.Contains("\n"+one.text, "\nbuild {") {
			continue
		}
		count++
		found, err := packercheck.Check([]packercheck.File{{Name: one.name, Text: []byte(one.text)}})
		require.NoError(t, err, one.name)
		assert.Empty(t, found, one.name)
	}
	assert.Greater(t, count, len([]string{"amazon-ebs", "cluster", "github-actions", "local"}), "pages and examples")
}

func TestOpenTofuExamplesAreHCL(t *testing.T) {
	found := 0
	for _, name := range tracked(t) {
		if path.Ext(name) == ".tf" {
			found++
			_, diagnostics := hclparse.NewParser().ParseHCL([]byte(read(t, name)), name)
			assert.False(t, diagnostics.HasErrors(), diagnostics.Error())
		}
	}
	assert.NotZero(t, found)
}

// The recipe for Renovate finds the version in the examples' templates.
func TestTheRecipeForRenovateFindsVersions(t *testing.T) {
	var recipe struct {
		Managers []struct{ ManagerFilePatterns, MatchStrings []string } `json:"customManagers"`
	}
	for _, b := range blocks(t, "text") {
		if strings.Contains(b.text, "customManagers") {
			require.NoError(t, json.Unmarshal([]byte(b.text), &recipe))
		}
	}
	require.Len(t, recipe.Managers, 1)
	files := regexp.MustCompile(strings.Trim(recipe.Managers[0].ManagerFilePatterns[0], "/"))
	require.True(t, files.MatchString("examples/local/node.pkr.hcl"))
	for i, text := range []string{`kubernetes_version = "` + lifecycle.Kubernetes() + `"`, read(t, "examples/local/node.pkr.hcl")} {
		found := regexp.MustCompile(recipe.Managers[0].MatchStrings[i]).FindStringSubmatch(text)
		require.Len(t, found, 2)
		assert.Equal(t, lifecycle.Kubernetes(), found[1])
	}
}

// The integration pages list all components of the plugin, and each has its
// page.
func TestIntegrationPagesListTheComponents(t *testing.T) {
	file, diagnostics := hclparse.NewParser().ParseHCL([]byte(read(t, ".web-docs/metadata.hcl")), "metadata.hcl")
	require.False(t, diagnostics.HasErrors(), diagnostics.Error())
	integration := file.Body.(*hclsyntax.Body).Blocks[0]
	var names []string
	for _, b := range integration.Body.Blocks {
		if b.Type != "component" {
			continue
		}
		fields := map[string]string{}
		for name, a := range b.Body.Attributes {
			value, diagnostics := a.Expr.Value(nil)
			require.False(t, diagnostics.HasErrors(), diagnostics.Error())
			fields[name] = value.AsString()
		}
		names = append(names, fields["name"])
		assert.True(t, exists(path.Join(".web-docs/components", fields["type"], fields["slug"], "README.md")), fields["name"])
	}
	want := []string{"eksnode-disk", "eksnode-cluster", "eksnode-base-ami", "eksnode-contents", "eksnode-ami", "eksnode-publish"}
	for name := range provisioners() {
		want = append(want, name)
	}
	assert.ElementsMatch(t, want, names)
}
