package preflight

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const casesFile = "testdata/cases.yaml"

// dataCase is a checkCase whose change is data. Its fields stand in the order of their use.
type dataCase struct {
	Check, Name string
	// Start names the facts before the change: those of the sample, or others of starts.
	Start string
	// Do names changes in Go.
	Do []string
	// Set has values of facts by their paths, such as image.State or subnets.subnet-1.Routes. A plus after
	// the path appends to a list. Errors are those of fault.
	Set map[string]any
	// UserData replaces a part of the user data. Class is more of the EC2NodeClass.
	UserData []string `yaml:"userData"`
	Class    string
	// AWSAuth are the ARN, the username and the groups of a line of aws-auth, or the whole text.
	AWSAuth []string `yaml:"awsAuth"`
	Verdict string
	// Says and Remedy are parts of the finding's evidence and remedy.
	Says, Remedy string
}

// Each check fails in its cases, and passes without the change.
func TestEachCheckFailsAndPasses(t *testing.T) {
	starts := map[string]func() *facts{
		"": sample, "template": templated, "ipv6": sample6, "eksImage": eksImage, "class": func() *facts {
			return classed(t)
		},
	}
	var cases []dataCase
	d := yaml.NewDecoder(strings.NewReader(testkit.Content(t, casesFile)))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&cases))
	for _, c := range cases {
		t.Run(c.Check+"/"+c.Verdict+" "+c.Name, func(t *testing.T) {
			f := starts[c.Start]()
			if c.Check != "spot-role" && c.Check != "private-zones" {
				assert.Equal(t, OK, found(t, f, c.Check).Verdict, "the check must pass before the change")
			}
			change := func(f *facts) { c.change(t, f) }
			said := checkCase{c.Check, c.Verdict, change, c.Says, c.Remedy}.judge(t, f)
			assert.Equal(t, said.Verdict == OK, said.Remedy == "", said.Remedy)
		})
	}
}

func (c dataCase) change(t *testing.T, f *facts) {
	t.Helper()
	for _, name := range c.Do {
		switch name {
		case "second":
			second(f)
		case "closed":
			closed(f)
		case "endpointGroup":
			endpointGroup(f)
		case "key":
			f.keys = known([]awsapi.Key{{
				ARN: ownKey, Account: "123456789012", State: "Enabled", Symmetric: true, Policy: rootOnly,
			}})
		case "documented":
			f.keys.value[0].Policy = documented
		default:
			t.Fatalf("unknown change %s", name)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(c.Set)) {
		text, err := json.Marshal(c.Set[path])
		require.NoError(t, err)
		f.set(t, path, text)
	}
	if len(c.UserData) > 0 {
		say(f, strings.Replace(joining, c.UserData[0], c.UserData[1], 1))
	}
	if c.Class != "" {
		f.useClass(t, minimal+c.Class)
	}
	switch len(c.AWSAuth) {
	case 1:
		f.target.AWSAuth = []byte(c.AWSAuth[0])
	case 3:
		f.target.AWSAuth = fmt.Appendf(nil, "kind: ConfigMap\ndata:\n  mapRoles: |\n    - rolearn: %s\n"+
			"      username: %s\n      groups: [%s]\n", c.AWSAuth[0], c.AWSAuth[1], c.AWSAuth[2])
	}
}

// set puts a value in JSON at a path. Both sides have the cluster's security group.
func (f *facts) set(t *testing.T, path string, text []byte) {
	t.Helper()
	names := strings.Split(strings.TrimSuffix(path, "+"), ".")
	switch {
	case path == "userData":
		f.launch.value.UserData = []byte(testkit.JSON[string](t, text))
		f.userData = f.userDataOfLaunch(f.launch.value)
	case path == "lacking":
		f.simulated = lacking(f, testkit.JSON[[]string](t, text)...)
	case names[0] == "clusterGroup":
		for _, groups := range []string{"nodeGroups", "planeGroups"} {
			f.set(t, groups+".sg-"+strings.Replace(path, "Group", "", 1), text)
		}
	default:
		put(t, part(reflect.ValueOf(f).Elem(), names[0]), names[1:], text, strings.HasSuffix(path, "+"))
	}
}

// part is a field that can be set, also one without export. That of a fact is its value, unless it is named.
func part(v reflect.Value, name string) reflect.Value {
	if field := v.FieldByName("value"); field.IsValid() && name != "err" && name != "absent" {
		v = reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
	}
	if name == "" {
		return v
	}
	field := v.FieldByName(name)
	return reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
}

func put(t *testing.T, v reflect.Value, names []string, text []byte, grow bool) {
	t.Helper()
	isFact := strings.HasPrefix(v.Type().Name(), "fact[")
	switch {
	case isFact && len(names) > 0 && (names[0] == "err" || names[0] == "absent"):
		put(t, part(v, names[0]), names[1:], text, grow)
	case isFact:
		put(t, part(v, ""), names, text, grow)
	case len(names) > 0 && v.Kind() == reflect.Pointer:
		put(t, v.Elem(), names, text, grow)
	case len(names) > 0 && v.Kind() == reflect.Struct:
		put(t, part(v, names[0]), names[1:], text, grow)
	case len(names) > 0 && v.Kind() == reflect.Slice:
		put(t, entryOf(t, v, names[0]), names[1:], text, grow)
	case len(names) > 0:
		v.SetMapIndex(reflect.ValueOf(names[0]), reflect.ValueOf(testkit.JSON[any](t, text)))
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(fault(t, text)))
	default:
		kind := v.Type()
		if grow {
			kind = kind.Elem()
		}
		fresh := reflect.New(kind)
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(fresh.Interface()), "%s", text)
		if grow {
			v.Set(reflect.Append(v, fresh.Elem()))
		} else {
			v.Set(fresh.Elem())
		}
	}
}

// entryOf is the entry of a list with an index, an ID or a name.
func entryOf(t *testing.T, list reflect.Value, name string) reflect.Value {
	t.Helper()
	for i := range list.Len() {
		one := list.Index(i)
		for _, field := range []string{"ID", "Name"} {
			if v := one.FieldByName(field); v.IsValid() && v.String() == name {
				return one
			}
		}
	}
	i, err := strconv.Atoi(name)
	require.NoError(t, err, "no entry %s", name)
	return list.Index(i)
}

// fault is an error: a permission that is denied, an error code of AWS, or a text.
func fault(t *testing.T, text []byte) error {
	t.Helper()
	f := testkit.JSON[struct{ Denied, Code, Said, Text string }](t, text)
	switch {
	case f.Denied != "":
		return &awsapi.DeniedError{Permission: f.Denied}
	case f.Code != "":
		return &awsapi.APIError{Code: f.Code, Said: f.Said}
	}
	return errors.New(f.Text)
}
