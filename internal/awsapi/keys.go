package awsapi

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// BlockDevice is a disk that an image or a launch template makes.
type BlockDevice struct {
	// Name is a device's name, such as /dev/xvda.
	Name string
	// Snapshot is the source of the disk, or empty. Key is a KMS key's ID, alias or
	// ARN, or empty.
	Snapshot, Key string
	// Size is in GiB; 0 means that of the snapshot.
	Size      int
	Encrypted bool
}

func devicesOf(mappings []types.BlockDeviceMapping) []BlockDevice {
	var list []BlockDevice
	for _, m := range mappings {
		if e := m.Ebs; e != nil {
			list = append(list, BlockDevice{aws.ToString(m.DeviceName), aws.ToString(e.SnapshotId),
				aws.ToString(e.KmsKeyId), int(aws.ToInt32(e.VolumeSize)), aws.ToBool(e.Encrypted)})
		}
	}
	return list
}

// SnapshotKeys returns the KMS keys of encrypted snapshots, in ARNs.
func (a *AWS) SnapshotKeys(ctx context.Context, ids []string) ([]string, error) {
	found, err := a.snapshotsOf(ctx, "describing the snapshots "+strings.Join(ids, ", "),
		&ec2.DescribeSnapshotsInput{SnapshotIds: ids})
	var keys []string
	for _, s := range found {
		if s.Encrypted && s.Key != "" {
			keys = append(keys, s.Key)
		}
	}
	return keys, err
}

// VolumeKey is the KMS key with which EBS encrypts what has no other key: an ARN, or
// the alias alias/aws/ebs.
func (a *AWS) VolumeKey(ctx context.Context) (string, error) {
	out, err := a.ec2.GetEbsDefaultKmsKeyId(ctx, &ec2.GetEbsDefaultKmsKeyIdInput{})
	if err != nil {
		return "", explain("reading the default KMS key of EBS", err)
	}
	return aws.ToString(out.KmsKeyId), nil
}

// Key is a KMS key.
type Key struct {
	ARN, Account string
	// State is Enabled, Disabled, PendingDeletion or another.
	State string
	// AWSManaged says that AWS made the key for its services, such as aws/ebs.
	AWSManaged bool
	// Symmetric says whether EBS supports the key.
	Symmetric bool
	// Policy is the key policy as JSON. It is empty for keys of other accounts, as
	// only their own account can read it.
	Policy string
	Grants []kmstypes.GrantListEntry
}

// DescribeKey describes a key without its policy and its grants.
func (a *AWS) DescribeKey(ctx context.Context, id string) (Key, error) {
	out, err := a.kms.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(id)})
	if err != nil {
		return Key{}, explain("describing the KMS key "+id, err)
	}
	if out.KeyMetadata == nil {
		return Key{}, errIncomplete("describing the KMS key "+id, "key")
	}
	m := out.KeyMetadata
	return Key{
		ARN: aws.ToString(m.Arn), Account: aws.ToString(m.AWSAccountId), State: string(m.KeyState),
		AWSManaged: m.KeyManager == kmstypes.KeyManagerTypeAws,
		Symmetric:  m.KeySpec == "" || m.KeySpec == kmstypes.KeySpecSymmetricDefault,
	}, nil
}

// Key describes a key with its policy and its grants, for a caller of an account.
func (a *AWS) Key(ctx context.Context, id, account string) (Key, error) {
	k, err := a.DescribeKey(ctx, id)
	if err != nil {
		return k, err
	}
	if k.AWSManaged || k.State != string(kmstypes.KeyStateEnabled) {
		return k, nil
	}
	if k.Account == account {
		policy, err := a.kms.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: aws.String(k.ARN),
			PolicyName: aws.String("default")})
		if err != nil {
			return Key{}, explain("reading the policy of the KMS key "+id, err)
		}
		k.Policy = aws.ToString(policy.Policy)
	}
	pages := kms.NewListGrantsPaginator(a.kms, &kms.ListGrantsInput{KeyId: aws.String(k.ARN)})
	err = look(ctx, "listing the grants of the KMS key "+id, pages,
		func(g kmstypes.GrantListEntry) { k.Grants = append(k.Grants, g) })
	if err != nil && k.Account == account {
		return Key{}, err
	}
	return k, nil // another account may refuse, and its grants stay unknown
}

// PublicKey returns the public part of a KMS key in PEM. The key must sign by ECDSA on the
// curve P-256.
func (a *AWS) PublicKey(ctx context.Context, id string) ([]byte, error) {
	out, err := a.kms.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: aws.String(id)})
	if err != nil {
		return nil, explain("reading the public part of the KMS key "+id, err)
	}
	if !slices.Contains(out.SigningAlgorithms, kmstypes.SigningAlgorithmSpecEcdsaSha256) {
		return nil, fmt.Errorf("the KMS key %s is no key for signatures with ECDSA on P-256; make one with the usage "+
			"SIGN_VERIFY and the specification ECC_NIST_P256", id)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: out.PublicKey}), nil
}

// Sign signs data with a KMS key, by ECDSA on P-256 with SHA-256.
func (a *AWS) Sign(ctx context.Context, id string, data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	out, err := a.kms.Sign(ctx, &kms.SignInput{
		KeyId: aws.String(id), Message: sum[:], MessageType: kmstypes.MessageTypeDigest,
		SigningAlgorithm: kmstypes.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return nil, explain("signing with the KMS key "+id, err)
	}
	return out.Signature, nil
}
