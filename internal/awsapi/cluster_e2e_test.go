//go:build e2e && linux

package awsapi_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

func served(t *testing.T) *aws.World {
	t.Helper()
	w := aws.Sample(t)
	w.Serve()
	return w
}

func open(t *testing.T, o awsapi.Options) *awsapi.AWS {
	t.Helper()
	o.Pause, o.Settle = time.Millisecond, time.Millisecond
	a, err := awsapi.Open(t.Context(), o)
	require.NoError(t, err)
	return a
}

func TestClusterIsDescribed(t *testing.T) {
	served(t)
	c, err := open(t, awsapi.Options{}).Cluster(t.Context(), "my-cluster")
	require.NoError(t, err)
	assert.Regexp(t, `^https://oidc\.eks\.eu-west-1\.amazonaws\.com/id/.+$`, c.Issuer)
	c.Issuer = ""
	assert.Equal(t, awsapi.Cluster{
		Name: "my-cluster", ARN: "arn:aws:eks:eu-west-1:123456789012:cluster/my-cluster", Status: "ACTIVE", Version: "1.34",
		Endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", CA: aws.CA, ServiceCIDR: "10.100.0.0/16", IPFamily: "ipv4",
		AuthenticationMode: "API_AND_CONFIG_MAP", VPC: "vpc-1", Subnets: []string{"subnet-1", "subnet-2"},
		ClusterSecurityGroup: "sg-cluster", SecurityGroups: []string{"sg-extra"}, PrivateAccess: true,
		Role: "arn:aws:iam::123456789012:role/cluster",
	}, c)
	assert.True(t, c.Active())
}

// Errors name the call and the missing permission. Throttled calls are retried.
func TestErrorsOfClusterCalls(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*aws.World)
		want string // empty means success after retries
	}{
		"throttled":     {func(w *aws.World) { w.Fail("eks:DescribeCluster", 3, "ThrottlingException", 429) }, ""},
		"unavailable":   {func(w *aws.World) { w.Fail("eks:DescribeCluster", 2, "ServiceUnavailableException", 503) }, ""},
		"throttled all": {func(w *aws.World) { w.Fail("eks:DescribeCluster", 9, "ThrottlingException", 429) }, "describing the cluster my-cluster: ThrottlingException: as the test wants it"},
		"denied":        {func(w *aws.World) { w.Deny("eks:DescribeCluster") }, "describing the cluster my-cluster: the permission eks:DescribeCluster is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: eks:DescribeCluster"},
		"no cluster":    {func(w *aws.World) { w.Do("eks:DELETE /clusters/my-cluster") }, "describing the cluster my-cluster: ResourceNotFoundException: No cluster found for name: my-cluster."},
		"cut off":       {func(w *aws.World) { w.Break("eks:DescribeCluster") }, "describing the cluster my-cluster: "},
		"empty":         {func(w *aws.World) { w.Answer("eks:DescribeCluster", "{}") }, "describing the cluster my-cluster: the answer has no cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.fail(w)
			_, err := open(t, awsapi.Options{}).Cluster(t.Context(), "my-cluster")
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestAccessEntriesAndAddonsAreRead(t *testing.T) {
	w := served(t)
	w.PageSize = 1
	a := open(t, awsapi.Options{})
	entry, err := a.AccessEntry(t.Context(), "my-cluster", "arn:aws:iam::123456789012:role/node")
	require.NoError(t, err)
	assert.Equal(t, "EC2_LINUX", entry.Type)
	_, err = a.AccessEntry(t.Context(), "my-cluster", "arn:aws:iam::123456789012:role/other")
	assert.True(t, awsapi.IsNotFound(err), "%v", err)
	addons, err := a.Addons(t.Context(), "my-cluster")
	require.NoError(t, err)
	assert.Equal(t, []awsapi.Addon{
		{Name: "coredns", Version: "v1.12.1-eksbuild.2", Status: "ACTIVE"}, {Name: "kube-proxy", Version: "v1.34.0-eksbuild.2", Status: "ACTIVE"},
		{Name: "vpc-cni", Version: "v1.20.4-eksbuild.2", Status: "ACTIVE"},
	}, addons)
	assert.Equal(t, 3, w.Count()["eks:ListAddons"], "all pages must be requested")
}

func TestOptionsOfOpen(t *testing.T) {
	w := aws.Sample(t)
	url := w.Serve()
	t.Run("endpoint", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
		_, err := open(t, awsapi.Options{Endpoint: url}).Cluster(t.Context(), "my-cluster")
		require.NoError(t, err)
		_, err = awsapi.Open(t.Context(), awsapi.Options{Endpoint: "localhost"})
		require.EqualError(t, err, `endpoint: "localhost" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`)
	})
	t.Run("role", func(t *testing.T) {
		_, err := open(t, awsapi.Options{AssumeRole: "arn:aws:iam::123456789012:role/x", ExternalID: "y"}).Cluster(t.Context(), "my-cluster")
		require.NoError(t, err)
		assert.Equal(t, 1, w.Count()["sts:AssumeRole"])
	})
	t.Run("profile", func(t *testing.T) {
		file := t.TempDir() + "/config"
		require.NoError(t, os.WriteFile(file, []byte("[profile p]\nregion = eu-north-1\naws_access_key_id = "+aws.AccessKey+"\naws_secret_access_key = x\n"), 0o600))
		t.Setenv("AWS_CONFIG_FILE", file)
		t.Setenv("AWS_REGION", "")
		a := open(t, awsapi.Options{Profile: "p"})
		assert.Equal(t, "eu-north-1", a.Region)
		_, err := awsapi.Open(t.Context(), awsapi.Options{Profile: "q"})
		require.ErrorContains(t, err, "reading the AWS configuration: failed to get shared config profile, q")
	})
	t.Run("no region", func(t *testing.T) {
		t.Setenv("AWS_REGION", "")
		_, err := awsapi.Open(t.Context(), awsapi.Options{})
		require.EqualError(t, err, "region is missing; also AWS_REGION and the profile set no region")
	})
	t.Run("account", func(t *testing.T) {
		account, err := open(t, awsapi.Options{}).Account(t.Context())
		require.NoError(t, err)
		assert.Equal(t, aws.Account, account)
	})
}

func TestAttemptsComeFromTheEnvironment(t *testing.T) {
	w := served(t)
	w.Fail("eks:DescribeCluster", 9, "ThrottlingException", 429)
	t.Setenv("AWS_MAX_ATTEMPTS", "2")
	_, err := open(t, awsapi.Options{}).Cluster(t.Context(), "my-cluster")
	require.Error(t, err)
	assert.Equal(t, 2, w.Count()["eks:DescribeCluster"])
	_, err = open(t, awsapi.Options{Attempts: 3}).Cluster(t.Context(), "my-cluster")
	require.Error(t, err)
	assert.Equal(t, 5, w.Count()["eks:DescribeCluster"])
}

func TestErrorsOfMissingCredentials(t *testing.T) {
	w := served(t)
	w.Deny("sts:AssumeRole")
	_, err := awsapi.Open(t.Context(), awsapi.Options{AssumeRole: "arn:aws:iam::123456789012:role/x"})
	require.ErrorContains(t, err, "assuming the role arn:aws:iam::123456789012:role/x: the permission sts:AssumeRole is missing: ")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	_, err = awsapi.Open(t.Context(), awsapi.Options{})
	require.ErrorContains(t, err, "credentials: none were found")
}

// The tests cannot reach any network but loopback.
func TestOnlyLoopbackIsReachable(t *testing.T) {
	served(t)
	t.Setenv("AWS_ENDPOINT_URL", "")
	_, err := open(t, awsapi.Options{Attempts: 1}).Cluster(t.Context(), "my-cluster")
	require.Error(t, err)
	_, err = open(t, awsapi.Options{Attempts: 1, Endpoint: "http://192.0.2.1"}).Cluster(t.Context(), "my-cluster")
	require.ErrorContains(t, err, "network is unreachable")
}
