package sts

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

func TestGetCallerIdentity(t *testing.T) {
	service := Service("123456789012")
	server := httptest.NewServer(endpoint.New("AKIATEST", service))
	t.Cleanup(server.Close)
	client := endpoint.Client{URL: server.URL, AccessKey: "AKIATEST", Region: "us-east-1"}
	var out struct {
		Result identity `xml:"GetCallerIdentityResult"`
	}
	require.NoError(t, client.Call(t.Context(), service, "GetCallerIdentity", nil, &out))
	assert.Equal(t, identity{"arn:aws:iam::123456789012:user/double", "AIDADOUBLE", "123456789012"}, out.Result)
}
