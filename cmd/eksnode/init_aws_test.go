//go:build linux

package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

// Only the NodeConfig's variables for the connection to AWS are set in the
// environment of eksnode itself.
func TestEnvironmentOfNodeConfigIsUsed(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	var signed []string
	apis := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signed = append(signed, r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"cluster": {"status": "ACTIVE", "endpoint": "https://e", "certificateAuthority": {"data": %q}, "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"}}}`,
			base64.StdEncoding.EncodeToString([]byte("ca")))
	}))
	defer apis.Close()
	environment := map[string]string{
		"AWS_ENDPOINT_URL": apis.URL, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIANODE", "AWS_SECRET_ACCESS_KEY": "s",
		"no_proxy": "127.0.0.1", "EKSNODE_TEST_OTHER": "x",
	}
	for name := range environment {
		t.Setenv(name, "")
		require.NoError(t, os.Unsetenv(name)) // the test puts it back
	}
	aws, err := awsFor(metadata(t, service.URL), func(string) {})(t.Context(), environment)
	require.NoError(t, err)
	d, err := aws.DescribeCluster(t.Context(), "eu-west-1", "c", 0)
	require.NoError(t, err)
	assert.Equal(t, bootstrap.Described{Endpoint: "https://e", CA: []byte("ca"), IPv4CIDR: "10.100.0.0/16"}, d)
	require.Len(t, signed, 1)
	assert.Contains(t, signed[0], "Credential=AKIANODE/")
	assert.Contains(t, signed[0], "/eu-central-1/eks/aws4_request")
	assert.Empty(t, service.Requests())
	assert.Equal(t, "127.0.0.1", os.Getenv("no_proxy"))
	_, there := os.LookupEnv("EKSNODE_TEST_OTHER")
	assert.False(t, there)
}
