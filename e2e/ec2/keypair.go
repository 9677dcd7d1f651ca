package ec2

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type keyPair struct {
	place
	name string
	// authorized is the public half as instances receive it: with the pair's
	// name as its comment, which is how a key left in an image is recognized.
	authorized string
}

type createKeyPairIn struct {
	Name           string             `query:"KeyName"`
	Type           string             `query:"KeyType"`
	Specifications []tagSpecification `query:"TagSpecification"`
}

// KeyPair is the answer to CreateKeyPair: the only time that the private half is
// seen.
type KeyPair struct {
	ID          string `xml:"keyPairId"`
	Name        string `xml:"keyName"`
	Fingerprint string `xml:"keyFingerprint"`
	// Material is the private half in PEM.
	Material string `xml:"keyMaterial"`
	Tags     []Tag  `xml:"tagSet>item"`
}

func (d *Double) createKeyPair(region string, in createKeyPairIn) (KeyPair, error) {
	if slices.ContainsFunc(inRegion(d.keyPairs, region), func(k *keyPair) bool { return k.name == in.Name }) {
		return KeyPair{}, endpoint.Fail("InvalidKeyPair.Duplicate", "the keypair '%s' already exists", in.Name)
	}
	tags, err := tagsFor(in.Specifications, "key-pair")
	if err != nil {
		return KeyPair{}, err
	}
	signer, material, err := newKey(in.Type, in.Name)
	if err != nil {
		return KeyPair{}, err
	}
	public, err := ssh.NewPublicKey(signer.Public())
	if err != nil {
		return KeyPair{}, fmt.Errorf("making the key pair %s: %w", in.Name, err)
	}
	pair := &keyPair{place: place{region, d.next("key")}, name: in.Name}
	pair.authorized = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public))) + " " + in.Name
	d.keyPairs = append(d.keyPairs, pair)
	d.tag(pair.id, tags["key-pair"])
	return KeyPair{
		ID: pair.id, Name: pair.name, Material: material, Tags: d.tags[pair.id],
		Fingerprint: ssh.FingerprintSHA256(public),
	}, nil
}

// newKey makes a key in the form that EC2 has for its type.
func newKey(kind, name string) (crypto.Signer, string, error) {
	switch kind {
	case "", "rsa":
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, "", fmt.Errorf("making the key pair %s: %w", name, err)
		}
		block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
		return key, string(pem.EncodeToMemory(block)), nil
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, "", fmt.Errorf("making the key pair %s: %w", name, err)
		}
		block, err := ssh.MarshalPrivateKey(key, "")
		if err != nil {
			return nil, "", fmt.Errorf("making the key pair %s: %w", name, err)
		}
		return key, string(pem.EncodeToMemory(block)), nil
	}
	return nil, "", endpoint.Refuse("keys of type %q: it makes rsa and ed25519", kind)
}

type deleteKeyPairIn struct {
	Name string `query:"KeyName"`
}

// deleteKeyPair succeeds for a pair that does not exist, as EC2 does.
func (d *Double) deleteKeyPair(region string, in deleteKeyPairIn) (done, error) {
	d.keyPairs = slices.DeleteFunc(d.keyPairs, func(k *keyPair) bool { return k.region == region && k.name == in.Name })
	return done{Return: true}, nil
}
