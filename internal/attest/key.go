package attest

import (
	"context"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"
)

// Key verifies statements, and signs them if it has the private part.
type Key = dsse.SignerVerifier

// ParseKey reads a key in PEM: ed25519, ECDSA or RSA. A public key verifies, and a private
// key signs too.
func ParseKey(text []byte) (Key, error) {
	key, err := signerverifier.LoadKey(text)
	if err != nil {
		return nil, fmt.Errorf("%w; openssl genpkey -algorithm ed25519 makes a key", err)
	}
	switch key.KeyType {
	case signerverifier.ED25519KeyType:
		return signerverifier.NewED25519SignerVerifierFromSSLibKey(key)
	case signerverifier.ECDSAKeyType:
		return signerverifier.NewECDSASignerVerifierFromSSLibKey(key)
	case signerverifier.RSAKeyType:
		return signerverifier.NewRSAPSSSignerVerifierFromSSLibKey(key)
	}
	return nil, fmt.Errorf("keys of the type %q are not known", key.KeyType)
}

// CanSign reports whether a key has its private part.
func CanSign(ctx context.Context, key Key) bool {
	_, err := key.Sign(ctx, nil)
	return !errors.Is(err, signerverifier.ErrNotPrivateKey)
}

// Remote is a key whose private part is elsewhere, such as in KMS.
type Remote struct {
	Key
	// Private signs data.
	Private func(ctx context.Context, data []byte) ([]byte, error)
}

// Sign implements dsse.Signer.
func (r Remote) Sign(ctx context.Context, data []byte) ([]byte, error) { return r.Private(ctx, data) }
