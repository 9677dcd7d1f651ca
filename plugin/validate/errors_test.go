package validate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/hashicorp/hcl/v2/hcldec"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"
)

func TestAllListsEveryError(t *testing.T) {
	one, two, three := errors.New("one"), errors.New("two"), errors.New("three")
	for name, test := range map[string]struct {
		errs []error
		want string
	}{
		"one":                 {[]error{nil, one}, "1 error(s) occurred:\n\n* one"},
		"joined":              {[]error{errors.Join(one, errors.Join(two, three))}, "3 error(s) occurred:\n\n* one\n* two\n* three"},
		"wrapped with a text": {[]error{fmt.Errorf("both: %w and %w", one, two)}, "1 error(s) occurred:\n\n* both: one and two"},
	} {
		t.Run(name, func(t *testing.T) { require.EqualError(t, All(test.errs...), test.want) })
	}
	assert.True(t, All() == nil, "the interface itself must be nil")
	assert.True(t, All(nil, nil) == nil)
}

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
	require.NoError(t, decode(&b, nil, values(2)))
	want := block{shared: shared{"eu-west-1"}, Count: 2, Users: []string{"1"}, Tags: map[string]string{"a": "b"}}
	assert.Equal(t, want, b)
	assert.EqualError(t, decode(&b, nil, values(1.5)),
		"count: value must be a whole number, between -9223372036854775808 and 9223372036854775807")
}

func TestHomeReplacesTheTilde(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	for path, want := range map[string]string{
		"~/reports/x.json": "/home/me/reports/x.json", "~": "/home/me", "~/": "/home/me", "": "", "/x/~/y": "/x/~/y", "./~/x": "./~/x", "<unknown>": "<unknown>",
	} {
		got := path
		require.NoError(t, Home("report", &got))
		assert.Equal(t, want, got)
	}
	other := "~you/x"
	require.EqualError(t, Home("report", &other), "report: ~you/x begins with ~you: only ~/ is replaced by a home folder; write the whole path, or ./~you/x for a folder of that name")
	t.Setenv("HOME", "")
	mine := "~/x"
	require.EqualError(t, Home("report", &mine), "report: finding the home folder for ~/x: $HOME is not defined")
}

func TestUnknownValuesAreRecognized(t *testing.T) {
	assert.True(t, IsUnknown("<unknown>"))
	assert.True(t, IsUnknown("/home/<unknown>"))
	assert.False(t, IsUnknown(""))
	assert.Equal(t, "", Known("<unknown>"))
	assert.Equal(t, "x", Known("x"))

	list := []string{"a", "<unknown>", "b"}
	assert.Equal(t, []string{"a", "b"}, KnownOf(list))
	assert.Equal(t, []string{"a", "<unknown>", "b"}, list, "the caller's list must not change")
	assert.Empty(t, KnownOf(nil))

}

// KnownFields works by reflection, so new fields of a spec are covered.
func TestKnownFieldsRemovesUnknownValues(t *testing.T) {
	type named string
	type Inner struct {
		List []string
		Map  map[string]string
	}
	type spec struct {
		Inner
		Text, Part string
		Named      named
		Switch     bool
		Nothing    []string
		Pointer    *Inner
		hidden     string
	}
	later := spec{
		Inner: Inner{List: []string{"a", "<unknown>"}, Map: map[string]string{"a": "1", "b": "<unknown>"}},
		Text:  "<unknown>", Part: "/x/<unknown>", Named: "<unknown>", Switch: true, Pointer: &Inner{List: []string{"<unknown>"}}, hidden: "x",
	}
	known := KnownFields(later)
	assert.Equal(t, spec{Inner: Inner{List: []string{"a"}, Map: map[string]string{"a": "1"}}, Switch: true, Pointer: later.Pointer, hidden: "x"}, known)
	assert.Len(t, later.Map, 2, "the caller's map must not change")
	assert.Equal(t, []string{"a", "<unknown>"}, later.List, "the caller's list must not change")
	assert.Nil(t, known.Nothing, "a nil list must stay nil")
}
