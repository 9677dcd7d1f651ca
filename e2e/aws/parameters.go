//go:build linux

package aws

import (
	"context"
	"encoding/json"
	"regexp"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

// Parameter is a parameter of SSM.
type Parameter struct {
	Value, Type, DataType string
	// Version counts how often the parameter was put.
	Version int
}

// Parameter reads a parameter. A missing parameter has an empty value.
func (w *World) Parameter(region, name string) Parameter {
	w.t.Helper()
	var out struct{ Parameters []Parameter }
	require.NoError(w.t, json.Unmarshal(w.DoIn(region, "ssm:GetParameters", `{"Names":["`+name+`"]}`), &out))
	if len(out.Parameters) == 0 {
		return Parameter{}
	}
	return out.Parameters[0]
}

// Put writes a parameter of type String.
func (w *World) Put(name, value string) {
	w.t.Helper()
	text, err := json.Marshal(object{"Name": name, "Value": value, "Type": "String", "Overwrite": true})
	require.NoError(w.t, err)
	w.Do("ssm:PutParameter", string(text))
}

// put is a value that reads do not return yet.
type put struct {
	reads int
	call  endpoint.Call
}

func (w *World) getParameter(ctx context.Context, call endpoint.Call, in struct {
	Name           string
	WithDecryption bool
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	key := call.Region + " " + in.Name
	switch one := w.front.puts[key]; {
	case one == nil:
	case one.reads > 0:
		one.reads--
	default:
		delete(w.front.puts, key)
		if _, err := w.forward(w.ctx, one.call); err != nil {
			return nil, err
		}
	}
	// moto reserves AWS's own names.
	if value, public := w.Published[in.Name]; public {
		return object{"Parameter": object{"Name": in.Name, "Type": "String", "Value": value, "Version": 1, "DataType": "text"}}, nil
	}
	return w.forward(ctx, call)
}

var imageID = regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`)

// putParameter checks image ids, as SSM does before the parameter can be read.
// moto accepts any text.
func (w *World) putParameter(ctx context.Context, call endpoint.Call, in struct {
	Name, Value, Type, DataType, Description, Tier string
	Overwrite                                      bool
}) (any, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if in.DataType != "aws:ec2:image" {
		return w.forward(ctx, call)
	}
	if !imageID.MatchString(in.Value) {
		return nil, endpoint.Fail("ValidationException", "%q is not an image id", in.Value)
	}
	if w.front.Stale == 0 {
		return w.forward(ctx, call)
	}
	w.front.puts[call.Region+" "+in.Name] = &put{w.front.Stale, call}
	return object{"Version": 2, "Tier": "Standard"}, nil
}
