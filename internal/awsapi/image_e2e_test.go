//go:build e2e && linux

package awsapi_test

import (
	"encoding/base64"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func TestNewestFindsTheImage(t *testing.T) {
	byName := awsapi.Search{Owners: []string{"136693071363"}, Name: "debian-12-amd64-*", Architecture: "x86_64"}
	byParameter := byName
	byParameter.Parameter = "/aws/service/debian/release/12/latest/amd64"
	for name, c := range map[string]struct {
		search awsapi.Search
		change func(*aws.World)
		want   string // an ID, or the end of an error
	}{
		"by name":           {byName, func(*aws.World) {}, "ami-22222222"},
		"page by page":      {byName, func(w *aws.World) { w.PageSize = 1 }, "ami-22222222"},
		"by parameter":      {byParameter, func(*aws.World) {}, "ami-22222222"},
		"just published":    {byParameter, func(w *aws.World) { w.Fail("ec2:DescribeImages", 2, "InvalidAMIID.NotFound", 400) }, "ami-22222222"},
		"throttled":         {byName, func(w *aws.World) { w.Fail("ec2:DescribeImages", 3, "RequestLimitExceeded", 503) }, "ami-22222222"},
		"deleted":           {byParameter, func(w *aws.World) { w.Fail("ec2:DescribeImages", 3, "InvalidAMIID.NotFound", 400) }, "describing the image ami-22222222: InvalidAMIID.NotFound: as the test wants it"},
		"another owner":     {byParameter, func(w *aws.World) { w.Image(aws.Debian).Owner = "666666666666" }, "checking the image ami-22222222 of the parameter /aws/service/debian/release/12/latest/amd64: the owner is 666666666666, not 136693071363"},
		"another processor": {byParameter, func(w *aws.World) { w.Image(aws.Debian).Architecture = "arm64" }, "checking the image ami-22222222 of the parameter /aws/service/debian/release/12/latest/amd64: the image is for arm64, not x86_64"},
		"no parameter":      {byParameter, func(w *aws.World) { clear(w.Published) }, `reading the parameter /aws/service/debian/release/12/latest/amd64: ParameterNotFound: Parameter /aws/service/debian/release/12/latest/amd64 not found.`},
		"parameter denied":  {byParameter, func(w *aws.World) { w.Deny("ssm:GetParameter") }, "reading the parameter /aws/service/debian/release/12/latest/amd64: the permission ssm:GetParameter is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ssm:GetParameter"},
		"search denied":     {byName, func(w *aws.World) { w.Deny("ec2:DescribeImages") }, "searching for images debian-12-amd64-* of 136693071363: the permission ec2:DescribeImages is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ec2:DescribeImages"},
		"no image":          {byName, func(w *aws.World) { w.Images = nil }, "searching for images debian-12-amd64-* of 136693071363: there is no image for x86_64 in eu-west-1"},
		"no owner":          {awsapi.Search{Name: "x"}, func(*aws.World) {}, "searching for an image: no owner is set; anyone may publish images under any name"},
		"an alias":          {awsapi.Search{Owners: []string{"amazon"}, Parameter: "/aws/service/al2023", Architecture: "arm64"}, func(*aws.World) {}, "ami-33333333"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.change(w)
			image, err := open(t, awsapi.Options{}).Newest(t.Context(), c.search)
			if err != nil {
				assert.Equal(t, c.want, err.Error())
				return
			}
			assert.Equal(t, c.want, image.ID)
		})
	}
}

// SSM validates an image ID before the parameter changes, so Publish waits.
func TestPublishWaitsForTheParameter(t *testing.T) {
	for name, c := range map[string]struct {
		delay int
		want  string // the error's end; empty means published
	}{
		"at once": {0, ""},
		"later":   {11, ""},
		"never":   {100, "putting ami-0123456789abcdef0 into the parameter /nodes: the parameter did not change within five minutes; SSM refuses image IDs that it cannot describe"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			w.Put("/nodes", aws.OldDebian)
			w.Behave(aws.Behaviour{Stale: c.delay})
			err := open(t, awsapi.Options{}).Publish(t.Context(), "/nodes", "ami-0123456789abcdef0")
			if c.want != "" {
				require.EqualError(t, err, c.want)
				assert.Equal(t, "ami-11111111", w.Parameter(aws.Region, "/nodes").Value)
				return
			}
			require.NoError(t, err)
			written := w.Parameter(aws.Region, "/nodes")
			assert.Equal(t, "ami-0123456789abcdef0", written.Value)
			require.NoError(t, open(t, awsapi.Options{}).Publish(t.Context(), "/nodes", "ami-0123456789abcdef0"))
			assert.Equal(t, written.Version, w.Parameter(aws.Region, "/nodes").Version, "SSM keeps 100 versions")
		})
	}
}

func TestRegistryLoginIsReused(t *testing.T) {
	w := served(t)
	w.Answer("ecr:GetAuthorizationToken", `{"authorizationData":[{"authorizationToken":"`+base64.StdEncoding.EncodeToString([]byte("AWS:secret:with a colon"))+`"}]}`)
	t.Setenv("AWS_REGION", "") // the region comes from the registry's name
	login := awsapi.RegistryLogin(awsapi.Options{Pause: time.Millisecond})
	for range 2 {
		user, password, ok, err := login(t.Context(), registryHost)
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, "AWS", user)
		assert.Equal(t, "secret:with a colon", password)
	}
	assert.Equal(t, 1, w.Count()["ecr:GetAuthorizationToken"], "the second login must use the first token")
}

func TestFailedRegistryLoginsNameTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*aws.World)
		want   string
	}{
		"denied": {func(w *aws.World) { w.Deny("ecr:GetAuthorizationToken") },
			"logging in to " + registryHost + ": the permission ecr:GetAuthorizationToken is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ecr:GetAuthorizationToken"},
		"throttled all": {func(w *aws.World) { w.Fail("ecr:GetAuthorizationToken", 9, "ThrottlingException", 429) },
			"logging in to " + registryHost + ": ThrottlingException: as the test wants it"},
		"nothing": {func(w *aws.World) { w.Answer("ecr:GetAuthorizationToken", `{"authorizationData":[]}`) }, "logging in to " + registryHost + ": the answer has no token"},
	} {
		t.Run(name, func(t *testing.T) {
			w := served(t)
			c.change(w)
			_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{Pause: time.Millisecond})(t.Context(), registryHost)
			assert.True(t, ok)
			require.EqualError(t, err, c.want)
		})
	}
	t.Run("no credentials", func(t *testing.T) {
		served(t)
		t.Setenv("AWS_ACCESS_KEY_ID", "")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "")
		_, _, ok, err := awsapi.RegistryLogin(awsapi.Options{})(t.Context(), registryHost)
		assert.True(t, ok)
		require.ErrorContains(t, err, "logging in to "+registryHost+": credentials: none were found; set AWS_ACCESS_KEY_ID")
	})
}

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

func TestOptionsOfOpen(t *testing.T) {
	url := aws.Sample(t).Serve()
	t.Run("endpoint", func(t *testing.T) {
		t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
		_, err := open(t, awsapi.Options{Endpoint: url}).Cluster(t.Context(), "my-cluster")
		require.NoError(t, err)
		_, err = awsapi.Open(t.Context(), awsapi.Options{Endpoint: "localhost"})
		require.EqualError(t, err, `endpoint: "localhost" is not an address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com`)
	})
	t.Run("no such profile", func(t *testing.T) {
		_, err := awsapi.Open(t.Context(), awsapi.Options{Profile: "q"})
		require.ErrorContains(t, err, "reading the AWS configuration: failed to get shared config profile, q")
	})
	t.Run("no region", func(t *testing.T) {
		t.Setenv("AWS_REGION", "")
		_, err := awsapi.Open(t.Context(), awsapi.Options{})
		require.EqualError(t, err, "region is missing; also AWS_REGION and the profile set no region")
	})
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
