// Package ssm is test code: as much of a double of AWS Systems Manager as
// clients need that look up the newest image of a distribution.
package ssm

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type getParameterIn struct {
	Name string
	// Its parameters are public ones, which are not encrypted.
	WithDecryption bool
}

type parameter struct {
	Name     string
	Type     string
	Value    string
	Version  int
	ARN      string
	DataType string
}

type getParameterOut struct{ Parameter parameter }

// Service answers for SSM with parameters by their names.
func Service(parameters map[string]string) endpoint.Service {
	return endpoint.Service{Name: "ssm", Protocol: endpoint.JSON{}, Actions: map[string]endpoint.Action{
		"GetParameter": endpoint.Handle(func(_ context.Context, call endpoint.Call, in getParameterIn) (getParameterOut, error) {
			value, known := parameters[in.Name]
			if !known {
				return getParameterOut{}, endpoint.Fail("ParameterNotFound", "the parameter %q does not exist", in.Name)
			}
			return getParameterOut{parameter{
				Name: in.Name, Type: "String", Value: value, Version: 1, DataType: "text",
				ARN: "arn:aws:ssm:" + call.Region + "::parameter" + in.Name,
			}}, nil
		}),
	}}
}
