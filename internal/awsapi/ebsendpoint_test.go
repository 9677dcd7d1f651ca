package awsapi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// recorded records the addresses of requests, and answers none.
type recorded []string

func (r *recorded) RoundTrip(in *http.Request) (*http.Response, error) {
	*r = append(*r, in.URL.Scheme+"://"+in.URL.Host)
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: in.URL.Hostname(), IsNotFound: true}}
}

// The addresses of EBS in https://docs.aws.amazon.com/general/latest/gr/ebs-service.html,
// and those that users set.
func TestAddressesOfEBS(t *testing.T) {
	for name, one := range map[string]struct {
		region      string
		environment map[string]string
		want        string // an address, or the end of an error
	}{
		"plain":               {"eu-west-1", nil, "https://ebs.eu-west-1.amazonaws.com"},
		"FIPS":                {"us-east-1", map[string]string{"AWS_USE_FIPS_ENDPOINT": "true"}, "https://ebs-fips.us-east-1.amazonaws.com"},
		"dual stack":          {"eu-west-1", map[string]string{"AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://ebs.eu-west-1.api.aws"},
		"FIPS and dual stack": {"us-east-1", map[string]string{"AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true"}, "https://ebs-fips.us-east-1.api.aws"},
		"China":               {"cn-north-1", nil, "https://ebs.cn-north-1.amazonaws.com.cn"},
		"GovCloud":            {"us-gov-west-1", nil, "https://ebs.us-gov-west-1.amazonaws.com"},
		"European Sovereign":  {"eusc-de-east-1", nil, "https://ebs.eusc-de-east-1.amazonaws.eu"},
		"VPC endpoint": {
			"eu-west-1", map[string]string{"AWS_ENDPOINT_URL_EBS": "https://vpce-0123-ebs.eu-west-1.vpce.amazonaws.com"}, "https://vpce-0123-ebs.eu-west-1.vpce.amazonaws.com",
		},
		"endpoint of all services": {"eu-west-1", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1"},
		"both": {
			"eu-west-1", map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_EBS": "http://127.0.0.1:2"}, "http://127.0.0.1:2",
		},
		"ignored": {
			"eu-west-1", map[string]string{"AWS_ENDPOINT_URL_EBS": "http://127.0.0.1:2", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}, "https://ebs.eu-west-1.amazonaws.com",
		},
		"FIPS with an endpoint": {
			"us-east-1", map[string]string{"AWS_USE_FIPS_ENDPOINT": "true", "AWS_ENDPOINT_URL_EBS": "http://127.0.0.1:2"}, "FIPS and custom endpoint are not supported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint.Environment(t, one.environment)
			var calls recorded
			a, err := awsapi.Open(t.Context(), awsapi.Options{Region: one.region, Settle: time.Millisecond, Pause: time.Millisecond, HTTP: &http.Client{Transport: &calls}})
			require.NoError(t, err)
			_, err = a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "t", Size: 1, Timeout: time.Hour})
			if !strings.HasPrefix(one.want, "http") {
				require.ErrorContains(t, err, one.want)
				return
			}
			require.Equal(t, one.want, calls[0])
			host := strings.TrimPrefix(strings.TrimPrefix(one.want, "https://"), "http://")
			require.ErrorContains(t, err, "starting a snapshot: "+host+" is not reachable: the name ")
		})
	}
}

// A region without the EBS direct APIs has no such name.
func TestARegionWithoutEBS(t *testing.T) {
	endpoint.Environment(t, nil)
	a, err := awsapi.Open(t.Context(), awsapi.Options{Region: "xx-north-9", Settle: time.Millisecond, Pause: time.Millisecond, HTTP: &http.Client{Transport: &recorded{}}})
	require.NoError(t, err)
	_, err = a.Blocks(t.Context(), ownSnapshot)
	require.EqualError(t, err, "listing the blocks of the snapshot "+ownSnapshot+": ebs.xx-north-9.amazonaws.com is not reachable: "+
		"the name ebs.xx-north-9.amazonaws.com does not resolve; is the region or the endpoint wrong?; a private network needs an endpoint for ebs, and not every region has the EBS direct APIs")
}

// Another server may answer at a custom endpoint, and a proxy before it.
func TestAnEndpointThatIsNotEBS(t *testing.T) {
	for status, body := range map[int]string{http.StatusNotFound: "404 page not found", http.StatusForbidden: "<html>", http.StatusBadGateway: "<html>"} {
		server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { http.Error(out, body, status) }))
		t.Cleanup(server.Close)
		endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL_EBS": server.URL})
		a, err := awsapi.Open(t.Context(), awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
		require.NoError(t, err)
		_, err = a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "t", Size: 1, Timeout: time.Hour})
		require.EqualError(t, err, fmt.Sprintf("starting a snapshot: the answer is HTTP %d without an error of AWS; check the endpoint, and proxies on the way", status))
	}
}

// Blocks go through a proxy, and an error of the proxy names it.
func TestEBSThroughAProxy(t *testing.T) {
	d := ebsdirect.New(t.TempDir())
	proxy := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		if in.Method == http.MethodConnect {
			http.Error(out, "no", http.StatusForbidden)
			return
		}
		in.Host = in.URL.Host
		in.URL.Scheme, in.URL.Host = "", ""
		d.ServeHTTP(out, in)
	}))
	t.Cleanup(proxy.Close)
	through := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(proxy.URL) }}}
	for address, want := range map[string]string{
		"http://ebs.example":  "",
		"https://ebs.example": "starting a snapshot: ebs.example is not reachable: the proxy refused the connection: Forbidden; check HTTPS_PROXY and NO_PROXY",
	} {
		endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL_EBS": address})
		a, err := awsapi.Open(t.Context(), awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond, HTTP: through})
		require.NoError(t, err)
		_, err = a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "t", Size: 1, Timeout: time.Hour})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, want)
		assert.True(t, errors.As(err, new(*awsapi.UnreachedError)))
	}
}

// cut answers, and breaks the connection before the end.
type cut struct{}

func (cut) RoundTrip(in *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader("<DescribeImages"), iotest.ErrReader(errors.New("cut")))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body), Request: in}, nil
}

// The SDK's warnings are not for the person who waits; errors say what happened.
func TestTheSDKWritesNoLines(t *testing.T) {
	endpoint.Environment(t, nil)
	path, terminal := filepath.Join(t.TempDir(), "stderr"), os.Stderr
	file, err := os.Create(path)
	require.NoError(t, err)
	os.Stderr = file
	defer func() { os.Stderr = terminal }()
	a, err := awsapi.Open(t.Context(), awsapi.Options{Region: "eu-west-1", Attempts: 2, Settle: 1, Pause: 1, HTTP: &http.Client{Transport: cut{}}})
	require.NoError(t, err)
	_, err = a.Image(t.Context(), "ami-01234567")
	assert.ErrorContains(t, err, "describing the image ami-01234567: ")
	assert.Empty(t, testkit.Content(t, path))
}
