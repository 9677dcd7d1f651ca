package attest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Key verifies statements, and signs them if it has the private part.
type Key = dsse.SignerVerifier

// parseKey reads a key in PEM: ed25519, ECDSA or RSA. A public key verifies, and a private
// key signs too.
func parseKey(text []byte) (Key, error) {
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

// canSign reports whether a key has its private part.
func canSign(ctx context.Context, key Key) bool {
	_, err := key.Sign(ctx, nil)
	return !errors.Is(err, signerverifier.ErrNotPrivateKey)
}

// remote is a key whose private part is elsewhere, such as in KMS.
type remote struct {
	Key
	// Private signs data.
	Private func(ctx context.Context, data []byte) ([]byte, error)
}

// Sign implements dsse.Signer.
func (r remote) Sign(ctx context.Context, data []byte) ([]byte, error) { return r.Private(ctx, data) }

// Open opens a key in a file with PEM, or in KMS by its ARN or alias.
func Open(ctx context.Context, name string, connect func(context.Context) (*awsapi.AWS, error)) (Key, error) {
	if !strings.HasPrefix(name, "arn:") && !strings.HasPrefix(name, "alias/") {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the key: %w", err)
		}
		key, err := parseKey(text)
		if err != nil {
			return nil, fmt.Errorf("reading the key %s: %w", show.Line(name), err)
		}
		return key, nil
	}
	aws, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	if parts := strings.Split(name, ":"); len(parts) > 3 {
		aws = aws.In(parts[3])
	}
	public, err := aws.PublicKey(ctx, name)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(public)
	if err != nil {
		return nil, fmt.Errorf("reading the KMS key %s: %w", name, err)
	}
	return remote{Key: key, Private: func(ctx context.Context, data []byte) ([]byte, error) {
		return aws.Sign(ctx, name, data)
	}}, nil
}

// OpenSigner opens a key that can sign.
func OpenSigner(ctx context.Context, name string, connect func(context.Context) (*awsapi.AWS, error)) (Key, error) {
	key, err := Open(ctx, name, connect)
	if err == nil && !canSign(ctx, key) {
		err = fmt.Errorf("%s is a public key, which cannot sign; name the private one", show.Line(name))
	}
	return key, err
}
