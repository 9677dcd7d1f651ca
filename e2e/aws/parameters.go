package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// Version is a version of a parameter.
type Version struct {
	Name, Value string
	Version     int
	Labels      []string
}

type metadata struct{ Name, Type, DataType string }

// kind is a parameter's type.
func (w *World) kind(name string) string {
	if w.Secrets[name] {
		return "SecureString"
	}
	return "String"
}

func (w *World) describeParameters(_ context.Context, _ endpoint.Call, in struct {
	ParameterFilters []struct {
		Key, Option string
		Values      []string
	}
	NextToken string
}) (object, error) {
	var all []metadata
	for _, name := range slices.Sorted(maps.Keys(w.Parameters)) {
		chosen := !strings.HasPrefix(name, "/aws/service/") // those belong to AWS
		for _, f := range in.ParameterFilters {
			if f.Key != "Type" || f.Option != "Equals" {
				return nil, endpoint.Refuse("the filter %q", f.Key)
			}
			chosen = chosen && slices.Contains(f.Values, w.kind(name))
		}
		if chosen {
			all = append(all, metadata{name, w.kind(name), w.DataTypes[name]})
		}
	}
	some, next := page(w, all, in.NextToken)
	out := object{"Parameters": some}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}

func (w *World) getParameters(_ context.Context, _ endpoint.Call, in struct{ Names []string }) (object, error) {
	if len(in.Names) > 10 {
		return nil, endpoint.Fail("ValidationException", "Member must have length less than or equal to 10")
	}
	var found []object
	for _, name := range in.Names {
		found = append(found, object{"Name": name, "Type": w.kind(name), "Value": w.Parameters[name]})
	}
	return object{"Parameters": found}, nil
}

func (w *World) getParameterHistory(_ context.Context, _ endpoint.Call, in struct{ Name, NextToken string }) (object, error) {
	some, next := page(w, w.History[in.Name], in.NextToken)
	out := object{"Parameters": some}
	if next != "" {
		out["NextToken"] = next
	}
	return out, nil
}
