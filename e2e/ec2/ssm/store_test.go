package ssm

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

func TestStore(t *testing.T) {
	var s Store
	call := func(region, action, body string) (any, error) {
		service := s.Service()
		return service.Actions[action](context.Background(), service.Protocol, endpoint.Call{Service: "ssm", Region: region, Action: action, Body: body})
	}
	_, err := call("eu-west-1", "GetParameter", `{"Name":"/a"}`)
	require.ErrorContains(t, err, "ParameterNotFound")
	const image = `{"Name":"/a","Value":"ami-12345678","Type":"String","DataType":"aws:ec2:image"`
	put, err := call("eu-west-1", "PutParameter", image+`}`)
	require.NoError(t, err)
	assert.Equal(t, putParameterOut{1, "Standard"}, put)
	_, err = call("eu-west-1", "PutParameter", image+`}`)
	require.ErrorContains(t, err, "ParameterAlreadyExists")
	put, err = call("eu-west-1", "PutParameter", image+`,"Overwrite":true}`)
	require.NoError(t, err)
	assert.Equal(t, putParameterOut{2, "Standard"}, put)
	_, err = call("eu-west-1", "PutParameter", `{"Name":"/b","Value":"x","DataType":"aws:ec2:image"}`)
	require.ErrorContains(t, err, "ValidationException")
	got, err := call("eu-west-1", "GetParameter", `{"Name":"/a"}`)
	require.NoError(t, err)
	assert.Equal(t, parameter{"/a", "String", "ami-12345678", 2, "arn:aws:ssm:eu-west-1::parameter/a", "aws:ec2:image"}, got.(getParameterOut).Parameter)
	require.NoError(t, s.Publish("eu-north-1", "/c", "ami-87654321"))
	assert.Equal(t, "ami-87654321", s.Parameters("eu-north-1")["/c"].Value)
	_, err = call("us-east-1", "GetParameter", `{"Name":"/a"}`)
	require.ErrorContains(t, err, "ParameterNotFound", "regions are apart")
	assert.Equal(t, map[string]Parameter{"/a": {"ami-12345678", "String", "aws:ec2:image", 2}}, s.Parameters("eu-west-1"))
}
