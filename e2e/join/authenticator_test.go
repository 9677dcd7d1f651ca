package join

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// instance has the role that cluster B maps.
var instance = Identity{
	ID: "i-1", Role: "nodes-of-b", PrivateDNSName: "ip-10-77-1-2.eu-west-1.compute.internal",
	AccessKeyID: "ASIAONE", SecretKey: "secret", SessionToken: "session/+=",
}

// token returns the token that the program on the instance sends.
func token(t *testing.T, who Identity, cluster string) string {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", who.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", who.SecretKey)
	t.Setenv("AWS_SESSION_TOKEN", who.SessionToken)
	service, err := firstboot.OpenMetadata(t.Context())
	require.NoError(t, err)
	node, err := firstboot.OpenNode(t.Context(), service)
	require.NoError(t, err)
	text, _, err := node.Token(t.Context(), "eu-west-1", cluster)
	require.NoError(t, err)
	return text
}

func admitted(role string) bool { return role == instance.Role }

func authenticator() *Authenticator {
	a := &Authenticator{Cluster: "b", Identities: &Identities{}, Admits: admitted, Now: time.Now}
	a.Identities.Add(instance)
	return a
}

func TestTokenIdentifiesItsInstance(t *testing.T) {
	who, err := authenticator().Verify(token(t, instance, "b"))
	require.NoError(t, err)
	assert.Equal(t, instance, who)
}

// An administrator needs no role, and may have asked a double of STS.
func TestTokenIdentifiesAnAdministrator(t *testing.T) {
	boss := Identity{ID: "boss", Admin: true, AccessKeyID: "AKIABOSS", SecretKey: "secret"}
	t.Setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:5000")
	a := authenticator()
	a.Identities.Add(boss)
	_, err := a.Verify(token(t, boss, "b"))
	require.EqualError(t, err, "the token is for http://127.0.0.1:5000/, must be for STS")
	a.STS = "http://127.0.0.1:5000/"
	who, err := a.Verify(token(t, boss, "b"))
	require.NoError(t, err)
	assert.Equal(t, boss, who)
}

func TestInvalidTokensAreRefused(t *testing.T) {
	forged, stranger, other := instance, instance, instance
	forged.SecretKey = "guess"
	stranger.AccessKeyID = "ASIATWO"
	other.AccessKeyID, other.ID, other.Role = "ASIAOTHER", "i-2", "nodes-of-a"
	later := func() time.Time { return time.Now().Add(16*time.Minute + time.Second/2) }
	for name, c := range map[string]struct {
		token, want string
		now         func() time.Time
	}{
		"for another cluster":    {token(t, instance, "a"), "the token of i-1 is not signed for the cluster b", nil},
		"with another secret":    {token(t, forged, "b"), "the token of i-1 is not signed for the cluster b", nil},
		"of an unknown instance": {token(t, stranger, "b"), `the token's credentials "ASIATWO" belong to no instance`, nil},
		"of another role":        {token(t, other, "b"), "the role nodes-of-a of i-2 is not mapped in the cluster b", nil},
		"old":                    {token(t, instance, "b"), "the token is 16m0s old", later},
		"of a service account":   {"eyJhbGciOiJSUzI1NiJ9", "the token is not an EKS token", nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := authenticator()
			a.Identities.Add(other)
			if c.now != nil {
				a.Now = c.now
			}
			_, err := a.Verify(c.token)
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), strings.TrimSuffix(c.want, "0s old")), "%v", err)
		})
	}
}
