package validate

import (
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

type shared struct {
	Region string `mapstructure:"region"`
}

type block struct {
	shared `mapstructure:",squash"`
	Count  int               `mapstructure:"count"`
	Keep   bool              `mapstructure:"keep"`
	Users  []string          `mapstructure:"users"`
	Tags   map[string]string `mapstructure:"tags"`
	Lock   *shared           `mapstructure:"-"`
}

func TestAttributesOfABlockAreItsFields(t *testing.T) {
	want := hcldec.ObjectSpec{}
	for name, kind := range map[string]cty.Type{
		"region": cty.String, "count": cty.Number, "keep": cty.Bool, "users": cty.List(cty.String), "tags": cty.Map(cty.String),
	} {
		want[name] = &hcldec.AttrSpec{Name: name, Type: kind}
	}
	assert.Equal(t, want, HCL(&block{}))
}

func TestValuesOfHCLAreDecoded(t *testing.T) {
	values := func(count float64) cty.Value {
		return cty.ObjectVal(map[string]cty.Value{
			"region": cty.StringVal("eu-west-1"), "count": cty.NumberFloatVal(count), "keep": cty.NullVal(cty.Bool),
			"users": cty.ListVal([]cty.Value{cty.StringVal("1")}), "tags": cty.MapVal(map[string]cty.Value{"a": cty.StringVal("b")}),
		})
	}
	var b block
	require.NoError(t, Decode(&b, nil, values(2)))
	want := block{shared: shared{"eu-west-1"}, Count: 2, Users: []string{"1"}, Tags: map[string]string{"a": "b"}}
	assert.Equal(t, want, b)
	assert.EqualError(t, Decode(&b, nil, values(1.5)), "count: value must be a whole number, between -9223372036854775808 and 9223372036854775807")
}
