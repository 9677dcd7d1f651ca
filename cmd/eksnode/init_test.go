//go:build linux

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
)

func TestProgramNamesSelectCommands(t *testing.T) {
	for _, c := range []struct{ argv, want []string }{
		{[]string{"/usr/bin/eksnode", "audit"}, []string{"audit"}},
		{[]string{"nodeadm", "init", "-c", "x"}, []string{"nodeadm", "init", "-c", "x"}},
		{[]string{"/usr/bin/nodeadm"}, []string{"nodeadm"}},
		{[]string{"nodeadm", "-d", "init", "-d", "kubelet"}, []string{"nodeadm", "--development", "init", "-d", "kubelet"}},
		{[]string{"/etc/eks/bootstrap.sh", "my-cluster"}, []string{"bootstrap.sh", "my-cluster"}},
		{[]string{"/usr/bin/aws-iam-authenticator", "token", "-i", "c"}, []string{"aws-iam-authenticator", "token", "-i", "c"}},
		{nil, nil},
	} {
		assert.Equal(t, c.want, commandLine(c.argv))
	}
}

// printed returns the credential that a command prints for the kubelet, and the
// address in its token.
func printed(t *testing.T, args ...string) (execCredential, *url.URL) {
	t.Helper()
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), args, strings.NewReader(""), &out, &errOut), errOut.String())
	var answer execCredential
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
	text, ok := strings.CutPrefix(answer.Status.Token, "k8s-aws-v1.")
	require.True(t, ok)
	address, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	u, err := url.Parse(string(address))
	require.NoError(t, err)
	return answer, u
}

func TestTokenNeedsOnlyTheMetadataService(t *testing.T) {
	service := imdstest.Serve(imdstest.Typical())
	defer service.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	for _, args := range [][]string{
		{"token", "--cluster-name", "my-cluster", "--region", "eu-west-1"},
		{"token", "--cluster-name", "my-cluster"},
		commandLine([]string{"aws-iam-authenticator", "token", "-i", "my-cluster", "--region", "eu-west-1"}),
	} {
		answer, address := printed(t, args...)
		assert.Equal(t, "ExecCredential", answer.Kind)
		assert.Equal(t, "client.authentication.k8s.io/v1beta1", answer.APIVersion)
		assert.Equal(t, "sts.eu-west-1.amazonaws.com", address.Host)
		assert.Equal(t, "host;x-k8s-aws-id", address.Query().Get("X-Amz-SignedHeaders"))
		assert.Contains(t, address.Query().Get("X-Amz-Credential"), "ASIAFAKE/")
	}
	t.Setenv(execInfo, `{"apiVersion": "client.authentication.k8s.io/v1"}`)
	answer, _ := printed(t, "token", "--cluster-name", "my-cluster")
	assert.Equal(t, "client.authentication.k8s.io/v1", answer.APIVersion)
}

func TestUserDataIsReadFromTheMetadataService(t *testing.T) {
	i := imdstest.Typical()
	i.UserData = []byte("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: a, apiServerEndpoint: \"https://a\", certificateAuthority: Y2E=, cidr: 10.0.0.0/16}}\n")
	service := imdstest.Serve(i)
	defer service.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
	var out, errOut bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"nodeadm", "config", "dump"}, nil, &out, &errOut), errOut.String())
	assert.Contains(t, out.String(), `"name": "a"`)
	assert.Equal(t, []string{"api/token", "user-data"}, service.Requests())
}

// Wrong calls exit with 2. The other exit codes are those of Amazon's nodeadm and
// Amazon Linux 2's script.
func TestExitCodesOfProgramNames(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"nodeadm"}, 2}, {[]string{"nodeadm", "config"}, 2}, {[]string{"nodeadm", "nope"}, 2}, {[]string{"nodeadm", "init", "--nope"}, 2},
		{[]string{"nodeadm", "--version"}, 0}, {[]string{"nodeadm", "--help"}, 0}, {[]string{"nodeadm", "config", "check", "-c", "file:///nope"}, 1},
		{[]string{"bootstrap.sh"}, 2}, {[]string{"bootstrap.sh", "--help"}, 1}, {[]string{"bootstrap.sh", "c", "--ip-family"}, 2},
	} {
		var out, errOut bytes.Buffer
		assert.Equal(t, c.want, run(t.Context(), c.args, strings.NewReader(""), &out, &errOut), "%v\n%s", c.args, errOut.String())
	}
}
