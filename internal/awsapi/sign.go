package awsapi

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// SignActions are the permissions for signing with a KMS key.
func SignActions() []string { return []string{"kms:GetPublicKey", "kms:Sign"} }

// PublicKey returns the public part of a KMS key in PEM. The key must sign by ECDSA on the
// curve P-256.
func (a *AWS) PublicKey(ctx context.Context, id string) ([]byte, error) {
	out, err := a.kms.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(id)})
	if err != nil {
		return nil, explain("reading the public part of the KMS key "+id, err)
	}
	if !slices.Contains(out.SigningAlgorithms, kmstypes.SigningAlgorithmSpecEcdsaSha256) {
		return nil, fmt.Errorf("the KMS key %s is no key for signatures with ECDSA on P-256; make one with the usage SIGN_VERIFY and the specification ECC_NIST_P256", id)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: out.PublicKey}), nil
}

// Sign signs data with a KMS key, by ECDSA on P-256 with SHA-256.
func (a *AWS) Sign(ctx context.Context, id string, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	out, err := a.kms.Sign(ctx, &kms.SignInput{
		KeyId: aws.String(id), Message: sum[:], MessageType: kmstypes.MessageTypeDigest, SigningAlgorithm: kmstypes.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return nil, explain("signing with the KMS key "+id, err)
	}
	return out.Signature, nil
}
