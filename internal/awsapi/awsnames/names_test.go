package awsnames

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// checks are the forms by the names that the tests use.
func checks() map[string]func(string) error {
	return map[string]func(string) error{
		"instance": InstanceID.Check, "ami": ImageID.Check, "image": Image, "subnet": SubnetID.Check,
		"template": LaunchTemplate, "version": TemplateVersion, "cluster": ClusterName.Check,
		"nodegroup": NodegroupName.Check, "region": Region.Check, "role": RoleARN.Check,
		"role-name": RoleName.Check, "profile": ProfileName.Check, "type": InstanceType.Check,
		"account": AccountID.Check, "endpoint": Endpoint, "parameter": Parameter, "read": ReadParameter,
		"snapshot": SnapshotID.Check, "organization": OrganizationARN.Check, "unit": UnitARN.Check,
	}
}

//go:embed testdata/names.yaml
var samples []byte

func TestNamesHaveTheirForms(t *testing.T) {
	var names struct {
		Accepted map[string][]string          `yaml:"accepted"`
		Refused  map[string]map[string]string `yaml:"refused"`
	}
	require.NoError(t, yaml.Unmarshal(samples, &names))
	for form, check := range checks() {
		require.NotEmpty(t, names.Accepted[form], form)
		require.NotEmpty(t, names.Refused[form], form)
		for _, v := range names.Accepted[form] {
			assert.NoError(t, check(v), form)
		}
		for v, want := range names.Refused[form] {
			assert.EqualError(t, check(v), want, form)
		}
	}
	for form, most := range map[string]int{"template": 128, "cluster": 100, "nodegroup": 63, "profile": 128,
		"parameter": 1011} {
		assert.NoError(t, checks()[form](strings.Repeat("a", most)), form)
		err := checks()[form](strings.Repeat("a", most+1))
		assert.Regexp(t, fmt.Sprintf(`(: the maximum length is %[1]d characters|: names have 3 to %[1]d letters.*)$`,
			most), err, form)
	}
}

// Every example has its form, and every hint is for other texts.
func TestFormsAreWhole(t *testing.T) {
	for name, f := range forms() {
		assert.NotEmpty(t, f.What, name)
		if f.Example != "" {
			assert.NoError(t, name.Check(f.Example), name)
		}
		for _, h := range f.Hints {
			assert.Truef(t, h.Like == "" || like(h.Like, "\x00") == nil, "%s: %s", name, h.Like)
		}
	}
}

// Errors about long or unprintable texts stay short and printable.
func TestErrorsAreShortAndPrintable(t *testing.T) {
	for form, check := range checks() {
		for _, text := range []string{strings.Repeat("x y", 100000), "\x1b[31m\x00", "\xff\xfe"} {
			err := check(text)
			if assert.Error(t, err, form) {
				assert.Less(t, len(err.Error()), 1000, form)
				assert.NotContains(t, err.Error(), "\x1b", form)
			}
		}
	}
}

// No text makes a check panic, and what a check accepts has only characters that
// need no quotes in a URL's host, in a shell or in JSON.
func FuzzNames(f *testing.F) {
	for _, text := range []string{"i-0123456789abcdef0", "arn:aws:iam::123456789012:role/a/b", "resolve:ssm:/a:b",
		"$Latest", "https://a:1/", "eu-west-1a", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for form, check := range checks() {
			if err := check(text); err != nil {
				assert.Less(t, len(err.Error()), 1500, form)
			} else if form != "endpoint" {
				assert.NotContains(t, text, " ", form)
				assert.NotContains(t, text, "\n", form)
				assert.False(t, strings.ContainsAny(text, "'\"`\\;&|<>") && form != "role", "%s %q", form, text)
			}
		}
	})
}
