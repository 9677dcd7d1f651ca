package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

func TestKeyPairs(t *testing.T) {
	b := newBench(t)
	defer b.close()
	for kind, public := range map[string]string{"rsa": "ssh-rsa", "ed25519": "ssh-ed25519", "": "ssh-rsa"} {
		var key KeyPair
		b.call("CreateKeyPair", map[string]string{
			"KeyName": "packer_" + kind, "KeyType": kind,
			"TagSpecification.1.ResourceType": "key-pair", "TagSpecification.1.Tag.1.Key": "k", "TagSpecification.1.Tag.1.Value": "v",
		}, &key)
		signer, err := ssh.ParsePrivateKey([]byte(key.Material))
		require.NoError(t, err)
		assert.Equal(t, public, signer.PublicKey().Type())
		assert.Equal(t, ssh.FingerprintSHA256(signer.PublicKey()), key.Fingerprint)
		assert.Equal(t, []Tag{{"k", "v"}}, key.Tags)
	}
	assert.Len(t, b.double.Inventory(), 3)
	b.refused("InvalidKeyPair.Duplicate", "CreateKeyPair", map[string]string{"KeyName": "packer_rsa"})
	b.refused(endpoint.Refused, "CreateKeyPair", map[string]string{"KeyName": "new", "KeyType": "dsa"})
	for _, kind := range []string{"rsa", "ed25519", "", "never was"} {
		b.call("DeleteKeyPair", map[string]string{"KeyName": "packer_" + kind}, nil)
	}
	assert.Empty(t, b.double.Inventory())
}
