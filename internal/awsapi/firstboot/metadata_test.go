package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
)

func TestOneTokenServesAllRequests(t *testing.T) {
	s := instanceAt(t)
	m := open(t)
	for entry, want := range map[string]string{"meta-data/mac": "02:00:00:00:00:01", "meta-data/services/domain": "amazonaws.com", "user-data": "hello"} {
		got, err := m.Get(t.Context(), entry)
		require.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
	document, err := m.Get(t.Context(), "dynamic/instance-identity/document")
	require.NoError(t, err)
	assert.Contains(t, string(document), `"region":"eu-west-1"`)
	assert.Len(t, s.Requests(), 5)
	assert.Equal(t, "api/token", s.Requests()[0])
}

func TestMetadataErrors(t *testing.T) {
	const asking = "asking the instance metadata service for meta-data/mac: "
	const whole = "operation error ec2imds: GetMetadata, "
	const tokens = whole + "failed to get API token, operation error ec2imds: getToken, exceeded maximum number of attempts, 3, http response error StatusCode: "
	for name, c := range map[string]struct {
		change func(*imdstest.Settings)
		want   string
	}{
		"missing": {func(o *imdstest.Settings) { delete(o.Entries, "meta-data/mac") }, asking + "the answer is 404 Not Found"},
		"off": {func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusForbidden },
			asking + tokens + "403, request to EC2 IMDS failed; the metadata service is off: set the instance's metadata options to http-endpoint=enabled"},
		"broken":    {func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusInternalServerError }, asking + tokens + "500, request to EC2 IMDS failed"},
		"no tokens": {func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusNotFound }, asking + tokens + "404, request to EC2 IMDS failed"},
		"moved":     {func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusMovedPermanently }, asking + tokens + "301, request to EC2 IMDS failed"},
		"a portal":  {func(o *imdstest.Settings) { o.Garbage = true }, asking + whole + `failed to get API token, operation error ec2imds: getToken, unable to get deserialized result for response, unable to parse API token, strconv.ParseInt: parsing "": invalid syntax; something else answers at the service's address`},
		"too much": {func(o *imdstest.Settings) { o.Entries["meta-data/mac"] = strings.Repeat("x", maxMetadata+1) },
			asking + whole + "read response body failed, the response has more than 1048576 bytes; something else answers at the service's address"},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t).Set(c.change)
			_, err := open(t).Get(t.Context(), "meta-data/mac")
			assert.EqualError(t, err, c.want)
			assert.Equal(t, name == "missing", errors.Is(err, fs.ErrNotExist))
		})
	}
	s := instanceAt(t)
	s.Close()
	_, err := open(t).Get(t.Context(), "meta-data/mac")
	assert.ErrorContains(t, err, "exceeded maximum number of attempts, 3, request send failed, Put")
	assert.ErrorContains(t, err, "; is this an EC2 instance, is its network up, and is the metadata service's hop limit enough for containers?")
}

func TestUserDataMayBeMissing(t *testing.T) {
	s := instanceAt(t)
	s.Set(func(o *imdstest.Settings) { delete(o.Entries, "user-data") })
	data, err := open(t).UserData(t.Context())
	require.NoError(t, err)
	assert.Nil(t, data)
}

// Without a configured endpoint, the IPv6 address is used when the IPv4 address has
// no route, and it is the first from then on.
func TestIPv6AddressReplacesIPv4Address(t *testing.T) {
	const ipv4, ipv6 = "169.254.169.254:80", "[fd00:ec2::254]:80"
	s := instanceAt(t)
	require.NoError(t, os.Unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"))
	var addresses []string
	m, err := openMetadata(t.Context(), dialing(s.Listener.Addr().String(), ipv4, &addresses))
	require.NoError(t, err)
	for range 2 {
		_, err = m.Get(t.Context(), "meta-data/mac")
		require.NoError(t, err)
	}
	assert.Equal(t, []string{ipv4, ipv6}, addresses, "the connection is reused")

	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv4")
	addresses = nil
	m, err = openMetadata(t.Context(), dialing(s.Listener.Addr().String(), ipv4, &addresses))
	require.NoError(t, err)
	m.Attempts = 1
	_, err = m.Get(t.Context(), "meta-data/mac")
	require.ErrorContains(t, err, "no route to "+ipv4)
	assert.Equal(t, []string{ipv4}, addresses)
}

// net/http reads the proxies of the environment only once, so a test of requests
// might see none.
func TestMetadataUsesNoProxy(t *testing.T) {
	assert.Nil(t, metadataHTTP(nil, false).Transport.(*http.Transport).Proxy)
	assert.Nil(t, metadataHTTP(nil, true).Transport.(*either).transport.(*http.Transport).Proxy)
}

func TestMetadataEndsWithItsContext(t *testing.T) {
	instanceAt(t).Set(func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusServiceUnavailable })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped by systemd"))
	m := open(t)
	m.Attempts = 1000
	_, err := m.Get(ctx, "meta-data/mac")
	assert.ErrorContains(t, err, "asking the instance metadata service for meta-data/mac: stopped by systemd (last: ")
}

func TestProbes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*imdstest.Settings)
		want   string
	}{
		"there":         {func(*imdstest.Settings) {}, ""},
		"without an ID": {func(o *imdstest.Settings) { o.Entries = nil }, ""},
		"late":          {func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusServiceUnavailable }, ""},
		"silent":        {func(o *imdstest.Settings) { o.Delay = time.Hour }, "no answer within 500ms (last: "},
		"another":       {func(o *imdstest.Settings) { o.Fail, o.Status = -1, http.StatusNotFound }, "no answer within 500ms (last: http response error StatusCode: 404, request to EC2 IMDS failed)"},
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t).Set(c.change)
			m := open(t)
			err := m.Probe(t.Context(), 10*firstPause)
			if c.want == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, c.want)
			}
			assert.Equal(t, 3, m.Attempts)
		})
	}
}

// booting is a node that waits as at boot, with pauses of a nanosecond.
func booting(t *testing.T, imds http.Handler, aws *double) (n *Node, lines *[]string) {
	t.Helper()
	alone(t)
	for name, handler := range map[string]http.Handler{"AWS_EC2_METADATA_SERVICE_ENDPOINT": imds, "AWS_ENDPOINT_URL": aws} {
		s := httptest.NewServer(handler)
		t.Cleanup(s.Close)
		t.Setenv(name, s.URL)
	}
	m, err := OpenMetadata(t.Context())
	require.NoError(t, err)
	lines = &[]string{}
	log := func(line string) { *lines = append(*lines, line) }
	m.AtBoot(log)
	m.longest = 1
	n, err = OpenNode(t.Context(), m)
	require.NoError(t, err)
	n.pause, n.longest, n.Log = 1, 1, log
	return n, lines
}

// joins makes each request of a first boot.
func joins(t *testing.T, n *Node) error {
	t.Helper()
	if _, err := n.metadata.Get(t.Context(), "meta-data/mac"); err != nil {
		return err
	}
	if _, _, err := n.Token(t.Context(), "eu-west-1", "c"); err != nil {
		return err
	}
	if _, err := n.PrivateDNSName(t.Context(), "eu-west-1", "i-1"); err != nil {
		return err
	}
	if _, err := n.InstanceLimits(t.Context(), "eu-west-1", "z9.large"); err != nil {
		return err
	}
	_, err := n.DescribeCluster(t.Context(), "eu-west-1", "c", bootAPIAttempts)
	return err
}

// hangUp breaks the connection, as a network that is not up.
func hangUp(w http.ResponseWriter) {
	if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
		c.Close()
	}
}

// late fails the first requests for paths with a prefix.
func late(s *imdstest.Service, prefix string, times int, fail func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if times > 0 && strings.HasPrefix(strings.TrimPrefix(r.URL.Path, "/latest/"), prefix) {
			times--
			fail(w)
			return
		}
		s.ServeHTTP(w, r)
	})
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

func said(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { fmt.Fprint(w, text) }
}

// A node joins as soon as a late answer is there, and says meanwhile what it waits for.
// 150 attempts are more than two minutes; 60 are all that Amazon's nodeadm makes.
func TestABootWaitsForLateAnswers(t *testing.T) {
	const role = "meta-data/iam/security-credentials/"
	for name, c := range map[string]struct {
		prefix string
		fail   func(http.ResponseWriter)
		times  int
		waits  string
	}{
		"no network":             {"api/token", hangUp, 150, "the instance metadata service"},
		"no metadata service":    {"api/token", status(http.StatusServiceUnavailable), 150, "the instance metadata service"},
		"no tokens yet":          {"api/token", status(http.StatusNotFound), 150, "the instance metadata service"},
		"off for a while":        {"api/token", status(http.StatusForbidden), 150, "the instance metadata service"},
		"throttled metadata":     {"meta-data/mac", status(http.StatusTooManyRequests), 150, "the instance metadata service"},
		"expired tokens":         {"meta-data/mac", status(http.StatusUnauthorized), 20, "the instance metadata service"},
		"no instance profile":    {role, status(http.StatusNotFound), 150, "the instance metadata service"},
		"no credentials":         {role + "node", status(http.StatusNotFound), 150, "the instance metadata service"},
		"a role not yet assumed": {role + "node", said(`{"Code": "AssumeRoleUnauthorizedAccess"}`), 150, "the role's credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			n, lines := booting(t, late(imdstest.New(imdstest.Typical()), c.prefix, c.times, c.fail), &double{status: "ACTIVE"})
			require.NoError(t, joins(t, n))
			waited(t, *lines, c.waits)
		})
	}
	for name, fail := range map[string]func(http.ResponseWriter){
		"unreachable": hangUp,
		"overloaded":  status(http.StatusServiceUnavailable),
		"throttled": func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>`)
		},
	} {
		t.Run("EC2 is "+name, func(t *testing.T) {
			aws := &double{status: "ACTIVE"}
			aws.before = func(w http.ResponseWriter, action string, nth int) bool {
				if action == "DescribeInstanceTypes" && nth < 30 {
					fail(w)
					return true
				}
				return false
			}
			n, lines := booting(t, imdstest.New(imdstest.Typical()), aws)
			require.NoError(t, joins(t, n))
			waited(t, *lines, "AWS")
		})
	}
}

// A name that is not resolved yet is awaited like an address without a route.
func TestABootWaitsForDNS(t *testing.T) {
	n, lines := booting(t, imdstest.New(imdstest.Typical()), &double{status: "ACTIVE"})
	looks := 0
	n.config.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(to *http.Transport) {
		dial := to.DialContext
		to.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			if looks++; looks <= 30 {
				return nil, &net.DNSError{Err: "server misbehaving", Name: address, IsTemporary: true}
			}
			return dial(ctx, network, address)
		}
	})
	_, err := n.DescribeCluster(t.Context(), "eu-west-1", "c", bootAPIAttempts)
	require.NoError(t, err)
	waited(t, *lines, "AWS")
	assert.Contains(t, (*lines)[0], "server misbehaving")
}

// waited asserts that a long wait has few lines, and what they name.
func waited(t *testing.T, lines []string, what string) {
	t.Helper()
	require.NotEmpty(t, lines)
	assert.Less(t, len(lines), 10, "%s", lines)
	assert.Regexp(t, "^waiting for "+what+`, attempt 4 of \d+: .`, lines[0])
}

// Many kinds of failures in one boot, in an order of their own for each seed.
func TestABootWaitsForMixedFailures(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 0))
			fails := func(w http.ResponseWriter) bool {
				kinds := []func(http.ResponseWriter){hangUp, status(http.StatusServiceUnavailable), status(http.StatusTooManyRequests)}
				if chance.IntN(3) == 0 {
					return false
				}
				kinds[chance.IntN(len(kinds))](w)
				return true
			}
			s := imdstest.New(imdstest.Typical())
			s.Set(func(o *imdstest.Settings) { o.TokenLife = 3 })
			aws := &double{status: "ACTIVE", before: func(w http.ResponseWriter, _ string, _ int) bool { return fails(w) }}
			imds := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !fails(w) {
					s.ServeHTTP(w, r)
				}
			})
			n, _ := booting(t, imds, aws)
			assert.NoError(t, joins(t, n))
		})
	}
}

// What never comes ends with what was awaited.
func TestABootDoesNotWaitForEver(t *testing.T) {
	n, _ := booting(t, late(imdstest.New(imdstest.Typical()), "", 1<<30, hangUp), &double{})
	_, err := n.metadata.Get(t.Context(), "meta-data/mac")
	require.ErrorContains(t, err, "asking the instance metadata service for meta-data/mac: ")
	n.metadata.patience = time.Nanosecond
	_, err = n.metadata.Get(t.Context(), "meta-data/mac")
	require.ErrorContains(t, err, "no answer within 1ns")
}
