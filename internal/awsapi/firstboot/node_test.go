package firstboot

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
)

func TestResponses(t *testing.T) {
	instanceAt(t)
	_, address := serveAWS(t)
	t.Setenv("AWS_ENDPOINT_URL", address)
	n := node(t)
	name, err := n.PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.NoError(t, err)
	assert.Equal(t, "name-of-i-1", name)
	limits, err := n.InstanceLimits(t.Context(), "eu-west-1", "z9.large")
	require.NoError(t, err)
	assert.Equal(t, Limits{ENIs: 3, IPsPerENI: 10, VCPUs: 2, MemoryMiB: 8192}, limits, "of the default card")
	c, err := n.DescribeCluster(t.Context(), "eu-west-1", "c", 1)
	require.NoError(t, err)
	assert.Equal(t, Cluster{ID: "an-id", Endpoint: "https://endpoint", CA: []byte("ca"), IPv4CIDR: "10.100.0.0/16", IPv6CIDR: "fd00::/108", IPFamily: "ipv6", Outpost: true}, c)
}

// refused is an error of EC2.
const refused = `<Response><Errors><Error><Code>%s</Code><Message>said</Message></Error></Errors></Response>`

// Temporary failures are retried up to the limit. The error contains the last
// answer.
func TestRetriesOfTemporaryFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status, failures, want int
		body, err              string
	}{
		"unavailable":   {503, 2, 3, "", ""},
		"too many":      {429, 2, 3, "", ""},
		"throttled":     {400, 2, 3, fmt.Sprintf(refused, "RequestLimitExceeded"), ""},
		"always":        {500, 99, 6, "", "exceeded maximum number of attempts, 6, "},
		"denied":        {403, 99, 1, fmt.Sprintf(refused, "UnauthorizedOperation"), "api error UnauthorizedOperation: said; the node's role needs the policy AmazonEKSWorkerNodePolicy"},
		"not found":     {400, 99, 1, fmt.Sprintf(refused, "InvalidInstanceID.NotFound"), "api error InvalidInstanceID.NotFound: said; check the name and the region"},
		"a wrong clock": {403, 99, 1, fmt.Sprintf(refused, "SignatureDoesNotMatch"), "api error SignatureDoesNotMatch: said; check the machine's clock"},
		"a page":        {403, 99, 1, "<html>a proxy's page</html>", "StatusCode: 403"},
		"garbage":       {200, 99, 1, "no XML", "EC2's response lacks the instance type z9.large"},
		"too much":      {200, 99, 0, "<r>" + strings.Repeat("x", maxAnswer) + "</r>", "the response has more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			a := withAWS(t, "AWS_ENDPOINT_URL")
			a.fails(c.failures, c.status, c.body)
			_, err := node(t).InstanceLimits(t.Context(), "eu-west-1", "z9.large")
			if c.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.err)
			}
			// Go sometimes closes a connection within a long response. That is a temporary
			// failure, so the number of calls is not known.
			if c.want > 0 {
				assert.Len(t, a.requests(), c.want)
			}
		})
	}
}

func TestUnreachableAPIs(t *testing.T) {
	instanceAt(t)
	t.Setenv("AWS_MAX_ATTEMPTS", "3")
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:1":         "connection refused; the node needs a route to this address: a NAT gateway, an endpoint in its VPC or a proxy",
		"http://eks.example.invalid": "; the node needs a DNS server that resolves this name",
	} {
		t.Setenv("AWS_ENDPOINT_URL_EC2", endpoint)
		_, err := node(t).InstanceLimits(t.Context(), "eu-west-1", "m5.large")
		require.ErrorContains(t, err, "operation error EC2: DescribeInstanceTypes, exceeded maximum number of attempts, 3, https response error StatusCode: 0, RequestID: , request send failed, Post \""+endpoint)
		assert.ErrorContains(t, err, want)
	}
}

// The caller sets the number of attempts, as with --aws-api-retry-attempts.
func TestAttemptsForACluster(t *testing.T) {
	for _, attempts := range []int{1, 4, 6, 9} {
		a := withAWS(t, "AWS_ENDPOINT_URL_EKS")
		a.fails(99, http.StatusBadGateway, "")
		_, err := node(t).DescribeCluster(t.Context(), "eu-west-1", "c", attempts)
		require.ErrorContains(t, err, "operation error EKS: DescribeCluster, ")
		assert.Len(t, a.requests(), attempts)
	}
}

func TestNewClusterIsAwaited(t *testing.T) {
	for status, want := range map[string]string{"CREATING": "", "PENDING": "", "FAILED": "the cluster is FAILED", "DELETING": "the cluster is DELETING"} {
		a := withAWS(t, "AWS_ENDPOINT_URL_EKS")
		a.status = status
		a.before = func(_ http.ResponseWriter, _ string, nth int) bool {
			if want == "" && nth > 2 {
				a.status = "ACTIVE"
			}
			return false
		}
		_, err := node(t).DescribeCluster(t.Context(), "eu-west-1", "c", 1)
		if want == "" {
			require.NoError(t, err)
			assert.Len(t, a.requests(), 3)
		} else {
			assert.EqualError(t, err, want)
		}
	}
	a := withAWS(t, "AWS_ENDPOINT_URL_EKS")
	a.status = "CREATING"
	ctx, cancel := context.WithCancelCause(t.Context())
	a.before = func(_ http.ResponseWriter, _ string, nth int) bool {
		if nth == 3 {
			cancel(errors.New("stopped by systemd"))
		}
		return false
	}
	_, err := node(t).DescribeCluster(ctx, "eu-west-1", "c", 1)
	assert.ErrorContains(t, err, "stopped by systemd")
}

func TestIncompleteClusters(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                                "EKS's response has no cluster",
		`{"cluster": {"status": "ACTIVE"}}`: "EKS's response has no endpoint or no certificate authority",
		`{"cluster": {"status": "ACTIVE", "endpoint": "https://e", "certificateAuthority": {"data": ""}}}`:    "EKS's response has no endpoint or no certificate authority",
		`{"cluster": {"status": "ACTIVE", "endpoint": "https://e", "certificateAuthority": {"data": "%%%"}}}`: "reading the certificate authority: illegal base64 data at input byte 0",
		`{"cluster": {"status": "RESTING"}}`: "the cluster is RESTING",
		`{"cluster": {"status"`:              "deserialization failed",
	} {
		a := withAWS(t, "AWS_ENDPOINT_URL_EKS")
		a.fails(99, http.StatusOK, body)
		_, err := node(t).DescribeCluster(t.Context(), "eu-west-1", "c", 1)
		assert.ErrorContains(t, err, want, body)
	}
}

// EC2 may be unreachable, throttle requests or not list a new instance for longer than
// the attempts of the other requests last (amazon-eks-ami #2436).
func TestPrivateDNSNameIsAwaitedLongerThanOtherResponses(t *testing.T) {
	for name, c := range map[string]struct {
		status, failures, want int
		body, attempts, err    string
	}{
		"unavailable":     {503, 20, 21, "", "", ""},
		"throttled":       {400, 20, 21, fmt.Sprintf(refused, "RequestLimitExceeded"), "", ""},
		"not listed":      {400, 20, 21, fmt.Sprintf(refused, "InvalidInstanceID.NotFound"), "", ""},
		"denied":          {403, 99, 1, fmt.Sprintf(refused, "UnauthorizedOperation"), "", "the node's role needs the policy AmazonEKSWorkerNodePolicy"},
		"garbage":         {200, 99, 1, "no XML", "", "EC2's response has no instance i-1"},
		"a user's bounds": {503, 99, 2, "", "2", "exceeded maximum number of attempts, 2, "},
	} {
		t.Run(name, func(t *testing.T) {
			a := withAWS(t, "AWS_ENDPOINT_URL")
			t.Setenv("AWS_MAX_ATTEMPTS", c.attempts)
			a.fails(c.failures, c.status, c.body)
			n := node(t)
			n.longest = 2 * time.Millisecond
			var lines []string
			n.Log = func(line string) { lines = append(lines, line) }
			_, err := n.PrivateDNSName(t.Context(), "eu-west-1", "i-1")
			assert.Len(t, a.requests(), c.want)
			if c.err != "" {
				assert.ErrorContains(t, err, c.err)
				return
			}
			assert.NoError(t, err)
			assert.Len(t, lines, c.failures)
			for _, line := range lines {
				assert.Regexp(t, `^waiting for the instance's private DNS name, for \d+s so far and 10m0s at most: .*StatusCode: `, line)
			}
		})
	}
}

const nameless = `<DescribeInstancesResponse><reservationSet><item><instancesSet><item><privateDnsName/></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`

func TestWaitForPrivateDNSNameEnds(t *testing.T) {
	a := withAWS(t, "AWS_ENDPOINT_URL_EC2")
	a.fails(99, http.StatusOK, nameless)
	n := node(t)
	n.namePatience = 50 * time.Millisecond
	_, err := n.PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	assert.ErrorContains(t, err, "EC2 returned no private DNS name within 50ms; enableDnsSupport must be on in the instance's VPC")
}

func TestPrivateDNSNameIsAwaited(t *testing.T) {
	a := withAWS(t, "AWS_ENDPOINT_URL_EC2")
	a.fails(3, http.StatusOK, nameless)
	name, err := node(t).PrivateDNSName(t.Context(), "eu-west-1", "i-1")
	require.NoError(t, err)
	assert.Equal(t, "name-of-i-1", name)
	assert.Len(t, a.requests(), 4)
}

func TestCredentialsThatNeverCome(t *testing.T) {
	const entry = "meta-data/iam/security-credentials/"
	const refreshing = "getting the node's credentials: failed to refresh cached credentials, "
	const remedy = "; the instance needs an instance profile with the node's role"
	for name, c := range map[string]struct {
		entry string
		fail  func(http.ResponseWriter)
		want  string
	}{
		"no role": {entry, status(http.StatusNotFound), "no EC2 IMDS role found, operation error ec2imds: GetMetadata, " +
			"exceeded maximum number of attempts, 3, http response error StatusCode: 404, request to EC2 IMDS failed" + remedy},
		"a role without trust": {entry + "node", said(`{"Code": "AssumeRoleUnauthorizedAccess", "Message": "no trust"}`),
			"failed to get node EC2 IMDS role credentials, api error AssumeRoleUnauthorizedAccess: no trust" + remedy},
		"garbage": {entry + "node", said("<html>"), "failed to decode node EC2 IMDS role credentials, "},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t)
			server := httptest.NewServer(late(imdstest.New(imdstest.Typical()), c.entry, 99, c.fail))
			defer server.Close()
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
			_, _, err := node(t).Token(t.Context(), "eu-west-1", "c")
			assert.ErrorContains(t, err, refreshing+c.want)
		})
	}
}
