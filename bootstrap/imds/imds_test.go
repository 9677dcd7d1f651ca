package imds

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/imds/fake"
)

// impatient is a client that waits milliseconds between attempts; for each answer
// it waits as long as a busy machine may need.
func impatient(endpoints ...string) *Client {
	c := New(endpoints)
	c.Attempts, c.Wait, c.Timeout = 3, time.Millisecond, 10*time.Second
	return c
}

func serve(t *testing.T) *fake.Service {
	t.Helper()
	i := fake.Typical()
	i.UserData = []byte("hello")
	s := fake.Serve(i)
	t.Cleanup(s.Close)
	return s
}

func TestOneTokenServesAllRequests(t *testing.T) {
	s := serve(t)
	c := New([]string{s.URL})
	id, err := c.Identity(t.Context())
	require.NoError(t, err)
	assert.Equal(t, Identity{InstanceID: "i-0123456789abcdef0", InstanceType: "m5.large", Region: "eu-west-1", AvailabilityZone: "eu-west-1a", Architecture: "x86_64"}, id)
	mac, err := c.Text(t.Context(), "meta-data/mac")
	require.NoError(t, err)
	assert.Equal(t, "02:00:00:00:00:01", mac)
	data, err := c.UserData(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "hello", string(data))
	creds, err := c.Credentials(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "ASIAFAKE", creds.AccessKeyID)
	assert.Equal(t, []string{
		"api/token", "dynamic/instance-identity/document", "meta-data/mac", "user-data",
		"meta-data/iam/security-credentials/", "meta-data/iam/security-credentials/node",
	}, s.Requests())
}

func TestWhatPassesIsRetried(t *testing.T) {
	for name, change := range map[string]func(*fake.Settings){
		"unavailable":      func(o *fake.Settings) { o.Fail, o.Status = 2, http.StatusServiceUnavailable },
		"too many":         func(o *fake.Settings) { o.Fail, o.Status = 1, http.StatusTooManyRequests },
		"a token runs out": func(o *fake.Settings) { o.TokenLife = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.Set(change)
			c := impatient(s.URL)
			for range 3 {
				mac, err := c.Text(t.Context(), "meta-data/mac")
				require.NoError(t, err)
				assert.Equal(t, "02:00:00:00:00:01", mac)
			}
		})
	}
}

func TestItEndsInAClearMessage(t *testing.T) {
	const asking = "asking the instance metadata service for meta-data/mac: "
	for name, c := range map[string]struct {
		change func(*fake.Settings)
		want   string
	}{
		"missing":      {func(o *fake.Settings) { delete(o.Entries, "meta-data/mac") }, asking + "the answer is 404 Not Found"},
		"off":          {func(o *fake.Settings) { o.Fail, o.Status = -1, http.StatusForbidden }, asking + "gave up after 3 attempts: the token: the answer is 403 Forbidden; the metadata service is off: set the instance's metadata options to http-endpoint=enabled"},
		"broken":       {func(o *fake.Settings) { o.Fail, o.Status = -1, http.StatusInternalServerError }, asking + "gave up after 3 attempts: the token: the answer is 500 Internal Server Error"},
		"a portal":     {func(o *fake.Settings) { o.Garbage = true }, asking + `the token: unexpected content "<html><body>captive portal</body></html>": something else answers at the service's address`},
		"a wrong line": {func(o *fake.Settings) { o.Entries["meta-data/mac"] = "a\nb" }, asking + `unexpected content "a\nb": something else answers at the service's address`},
		"too much": {func(o *fake.Settings) { o.Entries["meta-data/mac"] = strings.Repeat("x", maxAnswer+1) },
			asking + "ENDPOINT answers with more than 1048576 bytes"},
		"slow": {func(o *fake.Settings) { o.Delay = time.Minute },
			asking + "gave up after 3 attempts: the token: ENDPOINT: no answer within 30ms; is this an EC2 instance, is its network up, and is the metadata service's hop limit enough for containers?"},
		"moved": {func(o *fake.Settings) { o.Fail, o.Status = -1, http.StatusMovedPermanently }, asking + "gave up after 3 attempts: the token: the answer is 301 Moved Permanently"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			s.Set(c.change)
			client := impatient(s.URL)
			if name == "slow" {
				client.Timeout = 30 * time.Millisecond
			}
			_, err := client.Text(t.Context(), "meta-data/mac")
			require.Error(t, err)
			assert.Equal(t, c.want, strings.ReplaceAll(err.Error(), s.URL, "ENDPOINT"))
		})
	}
}

func TestAnInstanceWithoutUserDataHasNone(t *testing.T) {
	s := fake.Serve(fake.Typical())
	defer s.Close()
	data, err := impatient(s.URL).UserData(t.Context())
	require.NoError(t, err)
	assert.Nil(t, data)
}

func TestTheSecondEndpointAnswersForTheFirst(t *testing.T) {
	s := serve(t)
	gone := serve(t)
	gone.Close()
	_, err := impatient(gone.URL, s.URL).Text(t.Context(), "meta-data/mac")
	assert.NoError(t, err)
}

func TestAnIdentityMustBeOne(t *testing.T) {
	for _, document := range []string{"{}", "no JSON", `{"instanceId": 1}`} {
		s := serve(t)
		s.Set(func(o *fake.Settings) { o.Entries["dynamic/instance-identity/document"] = document })
		_, err := impatient(s.URL).Identity(t.Context())
		assert.ErrorContains(t, err, "asking the instance metadata service for dynamic/instance-identity/document: unexpected content")
	}
}

func TestCredentialsAreWaitedFor(t *testing.T) {
	s := serve(t)
	const entry = "meta-data/iam/security-credentials/node"
	s.Set(func(o *fake.Settings) { delete(o.Entries, entry) })
	_, err := impatient(s.URL).Credentials(t.Context())
	assert.ErrorContains(t, err, "getting the instance role's credentials: gave up after 3 attempts: the answer is 404 Not Found")
	assert.ErrorContains(t, err, "the instance needs an instance profile with the node's role")

	s.Set(func(o *fake.Settings) {
		o.Entries[entry] = `{"Code": "AssumeRoleUnauthorizedAccess", "Message": "no trust"}`
	})
	_, err = impatient(s.URL).Credentials(t.Context())
	assert.ErrorContains(t, err, "the role node has none yet: AssumeRoleUnauthorizedAccess no trust")
}

func TestAnEndedContextEndsIt(t *testing.T) {
	s := serve(t)
	s.Set(func(o *fake.Settings) { o.Fail, o.Status = -1, http.StatusServiceUnavailable })
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped by systemd"))
	_, err := New([]string{s.URL}).Text(ctx, "meta-data/mac")
	assert.ErrorContains(t, err, "stopped by systemd")
}
