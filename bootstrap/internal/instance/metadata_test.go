package instance

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// always is a metadata service with the same response to all requests.
type always string

func (a always) Get(context.Context, string) ([]byte, error) { return []byte(a), nil }

func TestInvalidIdentityDocumentIsRefused(t *testing.T) {
	id, err := ReadIdentity(t.Context(), always(`{"instanceId": "i-1", "instanceType": "m5.large", "region": "eu-west-1", "availabilityZone": "eu-west-1a", "more": 1}`))
	require.NoError(t, err)
	assert.Equal(t, Identity{InstanceID: "i-1", InstanceType: "m5.large", Region: "eu-west-1", AvailabilityZone: "eu-west-1a"}, id)
	for document, shown := range map[string]string{
		"{}": `"{}"`, "": `""`, `{"instanceId": 1}`: `"{\"instanceId\": 1}"`, "<html><body>captive portal</body></html>": `"<html><body>captive portal</body></html>"`,
		strings.Repeat("x", 100): `"` + strings.Repeat("x", 60) + `"`,
	} {
		_, err := ReadIdentity(t.Context(), always(document))
		assert.EqualError(t, err, "asking the instance metadata service for dynamic/instance-identity/document: unexpected content "+shown+": something else answers at the service's address")
	}
}

func TestMultiLineMetadataIsRefused(t *testing.T) {
	line, err := ReadLine(t.Context(), always(" 02:00:00:00:00:01\n"), "meta-data/mac")
	require.NoError(t, err)
	assert.Equal(t, "02:00:00:00:00:01", line)
	for _, text := range []string{"", "\n", "a\nb", "a\rb", "<html>", "a\x00"} {
		_, err := ReadLine(t.Context(), always(text), "meta-data/mac")
		assert.ErrorContains(t, err, "asking the instance metadata service for meta-data/mac: unexpected content ")
	}
}

func FuzzMetadata(f *testing.F) {
	for _, text := range []string{`{"instanceId": "i-1", "region": "eu-west-1", "availabilityZone": "eu-west-1a"}`, "{}", "[", "a\nb", "02:00:00:00:00:01", "10.0.0.1\n", "fd00::1\nfd00::2"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ReadIdentity(t.Context(), always(text)); err == nil {
			assert.NotEmpty(t, id.InstanceID)
			assert.NotEmpty(t, id.Region)
		} else {
			assert.NotContains(t, err.Error(), "\n")
		}
		if line, err := ReadLine(t.Context(), always(text), "meta-data/mac"); err == nil {
			assert.NotContains(t, line, "\n")
		}
		if _, err := address(t.Context(), always(text), "", true); err != nil {
			assert.NotContains(t, err.Error(), "\n")
		}
	})
}
