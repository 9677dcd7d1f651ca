package machine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

func TestNewKey(t *testing.T) {
	key, err := NewKey("builder")
	require.NoError(t, err)
	public, comment, _, _, err := ssh.ParseAuthorizedKey([]byte(key.Authorized))
	require.NoError(t, err)
	assert.Equal(t, "builder", comment)
	signer, err := ssh.ParsePrivateKey(key.PEM)
	require.NoError(t, err)
	assert.Equal(t, public.Marshal(), signer.PublicKey().Marshal())
	assert.Equal(t, public.Marshal(), key.Signer.PublicKey().Marshal())
	other, err := NewKey("builder")
	require.NoError(t, err)
	assert.NotEqual(t, key.Authorized, other.Authorized)
}
