package firstboot

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
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

func TestTemporaryFailuresAreRetried(t *testing.T) {
	for name, change := range map[string]func(*imdstest.Settings){
		"unavailable":      func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusServiceUnavailable },
		"too many":         func(o *imdstest.Settings) { o.Fail, o.Status = 1, http.StatusTooManyRequests },
		"no token yet":     func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusNotFound },
		"off for a moment": func(o *imdstest.Settings) { o.Fail, o.Status = 2, http.StatusForbidden },
		"a token runs out": func(o *imdstest.Settings) { o.TokenLife = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			instanceAt(t).Set(change)
			m := open(t)
			for range 3 {
				mac, err := m.Get(t.Context(), "meta-data/mac")
				require.NoError(t, err)
				assert.Equal(t, "02:00:00:00:00:01", string(mac))
			}
		})
	}
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
