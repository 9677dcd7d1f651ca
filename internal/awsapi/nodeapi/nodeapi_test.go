package nodeapi

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answer is one scripted answer; the last one repeats.
type answer struct {
	status int
	body   string
	header map[string]string
}

type service struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []answer
	requests []string
	headers  []http.Header
}

func serve(t *testing.T, answers ...answer) (*service, *Client) {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		s.requests = append(s.requests, r.Method+" "+r.URL.Path+" "+string(body))
		s.headers = append(s.headers, r.Header.Clone())
		a := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.status)
		_, err = io.WriteString(w, a.body)
		assert.NoError(t, err)
	}))
	t.Cleanup(s.Close)
	return s, client(s.URL)
}

func client(endpoints ...string) *Client {
	c := New("eu-west-1", func(context.Context) (Credentials, error) {
		return Credentials{"AKID", "secret", "session"}, nil
	}, http.DefaultTransport)
	c.Attempts, c.Wait, c.Timeout = 3, time.Millisecond, 10*time.Second
	c.Endpoints = func(string, string) []string { return endpoints }
	c.Now = func() time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC) }
	return c
}

const instances = `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><privateDnsName>%</privateDnsName></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`

func TestTheNameIsWaitedFor(t *testing.T) {
	s, c := serve(t, answer{200, strings.Replace(instances, "%", "", 1), nil}, answer{200, strings.Replace(instances, "%", "ip-10-0-1-2.eu-west-1.compute.internal", 1), nil})
	name, err := c.PrivateDNSName(t.Context(), "i-1")
	require.NoError(t, err)
	assert.Equal(t, "ip-10-0-1-2.eu-west-1.compute.internal", name)
	want := "POST / Action=DescribeInstances&InstanceId.1=i-1&Version=2016-11-15"
	assert.Equal(t, []string{want, want}, s.requests)
	assert.Contains(t, s.headers[0].Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKID/20260701/eu-west-1/ec2/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date;x-amz-security-token, Signature=")
	assert.Equal(t, "session", s.headers[0].Get("X-Amz-Security-Token"))
}

func TestLimitsAreTheDefaultCards(t *testing.T) {
	_, c := serve(t, answer{200, `<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceTypeSet><item>
<vCpuInfo><defaultVCpus>96</defaultVCpus><defaultCores>48</defaultCores></vCpuInfo><memoryInfo><sizeInMiB>1179648</sizeInMiB></memoryInfo><networkInfo>
<maximumNetworkInterfaces>60</maximumNetworkInterfaces><defaultNetworkCardIndex>1</defaultNetworkCardIndex><ipv4AddressesPerInterface>50</ipv4AddressesPerInterface>
<networkCards><item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>7</maximumNetworkInterfaces></item><item><networkCardIndex>1</networkCardIndex><maximumNetworkInterfaces>15</maximumNetworkInterfaces></item></networkCards>
</networkInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>`, nil})
	l, err := c.InstanceLimits(t.Context(), "p4d.24xlarge")
	require.NoError(t, err)
	assert.Equal(t, Limits{15, 50, 96, 1179648}, l)
	_, c = serve(t, answer{200, "<DescribeInstanceTypesResponse/>", nil})
	_, err = c.InstanceLimits(t.Context(), "z9.large")
	assert.EqualError(t, err, "EC2 says nothing about z9.large")
}

const described = `{"cluster": {"name": "my-cluster", "id": "7b1a", "status": "STATUS", "endpoint": "https://a.example", "certificateAuthority": {"data": "Y2E="},
"kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16", "serviceIpv6Cidr": "fd00::/108", "ipFamily": "ipv6"}, "outpostConfig": {"outpostArns": ["arn:x"]}, "unknown": 1}}`

func TestAClusterInTheMakingIsWaitedFor(t *testing.T) {
	status := func(s string) answer { return answer{200, strings.Replace(described, "STATUS", s, 1), nil} }
	s, c := serve(t, status("CREATING"), answer{503, "", nil}, status("ACTIVE"))
	got, err := c.DescribeCluster(t.Context(), "my-cluster")
	require.NoError(t, err)
	assert.Equal(t, Cluster{
		Name: "my-cluster", ID: "7b1a", Endpoint: "https://a.example", CA: []byte("ca"),
		IPv4CIDR: "10.100.0.0/16", IPv6CIDR: "fd00::/108", IPFamily: "ipv6", Outpost: true,
	}, got)
	assert.Equal(t, "GET /clusters/my-cluster ", s.requests[2])
	_, c = serve(t, status("DELETING"))
	_, err = c.DescribeCluster(t.Context(), "my-cluster")
	assert.EqualError(t, err, "the cluster my-cluster is DELETING")
}

func TestRefusalsAreNamedWithARemedy(t *testing.T) {
	for name, c := range map[string]struct {
		answer answer
		want   string
		sent   int
	}{
		"not authorized": {answer{403, `<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>You are not authorized.</Message></Error></Errors></Response>`, nil},
			"ec2:DescribeInstances: UnauthorizedOperation: You are not authorized. (403); the node's role needs the policy AmazonEKSWorkerNodePolicy", 1},
		"clock": {answer{401, `<Response><Errors><Error><Code>AuthFailure</Code><Message>no</Message></Error></Errors></Response>`, nil},
			"ec2:DescribeInstances: AuthFailure: no (401); is the machine's clock right?", 1},
		"throttled": {answer{503, `<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slow down</Message></Error></Errors></Response>`, nil},
			"ec2:DescribeInstances: gave up after 3 attempts: RequestLimitExceeded: slow down (503)", 3},
		"a proxy's page": {answer{407, "<html>", nil}, "ec2:DescribeInstances: Proxy Authentication Required (407)", 1},
		"no XML":         {answer{200, "hello", nil}, "ec2:DescribeInstances: reading the answer: EOF", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, client := serve(t, c.answer)
			_, err := client.PrivateDNSName(t.Context(), "i-1")
			assert.EqualError(t, err, c.want)
			assert.Len(t, s.requests, c.sent)
		})
	}
	_, c := serve(t, answer{404, `{"message": "No cluster found for name: x."}`, map[string]string{"X-Amzn-Errortype": "ResourceNotFoundException:http://internal"}})
	_, err := c.DescribeCluster(t.Context(), "x")
	assert.EqualError(t, err, "eks:DescribeCluster: ResourceNotFoundException: No cluster found for name: x. (404); check the name and the region")
}

func TestTheSecondEndpointAnswersForTheFirst(t *testing.T) {
	s, _ := serve(t, answer{200, strings.Replace(instances, "%", "n", 1), nil})
	gone := httptest.NewServer(nil)
	gone.Close()
	name, err := client(gone.URL, s.URL).PrivateDNSName(t.Context(), "i-1")
	require.NoError(t, err)
	assert.Equal(t, "n", name)
}

func TestSilenceEnds(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	defer close(release)
	c := client(silent.URL)
	c.Timeout = 20 * time.Millisecond
	_, err := c.DescribeCluster(t.Context(), "x")
	require.Error(t, err)
	assert.Equal(t, "eks:DescribeCluster: gave up after 3 attempts: URL: no answer within 20ms; the node needs a way to it: a NAT gateway, an endpoint in its VPC or a proxy", strings.ReplaceAll(err.Error(), silent.URL, "URL"))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped by systemd"))
	_, err = c.DescribeCluster(ctx, "x")
	assert.ErrorContains(t, err, "stopped by systemd")
}

func TestEndpointsOfAllPartitions(t *testing.T) {
	assert.Equal(t, []string{"https://ec2.eu-west-1.amazonaws.com", "https://ec2.eu-west-1.api.aws"}, Endpoints("ec2", "eu-west-1"))
	assert.Equal(t, []string{"https://eks.cn-north-1.amazonaws.com.cn", "https://eks.cn-north-1.api.amazonwebservices.com.cn"}, Endpoints("eks", "cn-north-1"))
	assert.Equal(t, []string{"https://ec2.us-gov-west-1.amazonaws.com", "https://ec2.us-gov-west-1.api.aws"}, Endpoints("ec2", "us-gov-west-1"))
	assert.Equal(t, []string{"https://ec2.us-iso-east-1.c2s.ic.gov"}, Endpoints("ec2", "us-iso-east-1"))
	assert.Equal(t, []string{"https://ec2.us-isob-east-1.sc2s.sgov.gov"}, Endpoints("ec2", "us-isob-east-1"))
	assert.Equal(t, []string{"https://sts.eusc-de-east-1.amazonaws.eu"}, Endpoints("sts", "eusc-de-east-1"))
}

func TestATokenIsASignedAddress(t *testing.T) {
	c := client()
	c.Endpoints = Endpoints
	token, expires, err := c.Token(t.Context(), "my-cluster")
	require.NoError(t, err)
	assert.Equal(t, c.Now().Add(14*time.Minute), expires)
	text, ok := strings.CutPrefix(token, "k8s-aws-v1.")
	require.True(t, ok)
	address, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	u, err := url.Parse(string(address))
	require.NoError(t, err)
	assert.Equal(t, "sts.eu-west-1.amazonaws.com", u.Host)
	q := u.Query()
	assert.Equal(t, "host;x-k8s-aws-id", q.Get("X-Amz-SignedHeaders"))
	assert.Equal(t, "60", q.Get("X-Amz-Expires"))
	assert.Equal(t, "GetCallerIdentity", q.Get("Action"))
	assert.Equal(t, "session", q.Get("X-Amz-Security-Token"))
	assert.Equal(t, "20260701T120000Z", q.Get("X-Amz-Date"))
	assert.Len(t, q.Get("X-Amz-Signature"), 64)
	again, _, err := c.Token(t.Context(), "my-cluster")
	require.NoError(t, err)
	assert.Equal(t, token, again, "one moment, one token")
	other, _, err := c.Token(t.Context(), "other")
	require.NoError(t, err)
	assert.NotEqual(t, token, other)
}
