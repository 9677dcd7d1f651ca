//go:build linux

package awsapi_test

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

const (
	ownSnapshot, foreignSnapshot = "snap-0aaaaaaaaaaaaaaaa", "snap-0bbbbbbbbbbbbbbbb"
	ownKey                       = "arn:aws:kms:eu-west-1:123456789012:key/mine"
)

// ebsDouble serves EBS to the real SDK.
func ebsDouble(t *testing.T) (*ebsdirect.Double, *awsapi.AWS) {
	t.Helper()
	d := aws.EBS(t, t.TempDir())
	d.Quotas = ebsdirect.Quotas{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	require.NoError(t, d.Add(ebsdirect.Snapshot{ID: ownSnapshot, Owner: d.Account, State: ebsdirect.Completed, Size: 2}, strings.NewReader("x")))
	require.NoError(t, d.Add(ebsdirect.Snapshot{ID: foreignSnapshot, Owner: "210987654321", State: ebsdirect.Completed, Size: 1}, strings.NewReader("x")))
	endpoint.Environment(t, map[string]string{"AWS_ENDPOINT_URL": server.URL})
	a, err := awsapi.Open(t.Context(), awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
	require.NoError(t, err)
	return d, a
}

func starting(n awsapi.NewSnapshot) func(*testing.T, *awsapi.AWS) error {
	return func(t *testing.T, a *awsapi.AWS) error {
		n.Token, n.Timeout = t.Name()[:20], time.Hour
		n.Size = cmp.Or(n.Size, 1)
		_, err := a.StartSnapshot(t.Context(), n)
		return err
	}
}

func listing(id string) func(*testing.T, *awsapi.AWS) error {
	return func(t *testing.T, a *awsapi.AWS) error {
		_, err := a.Blocks(t.Context(), id)
		return err
	}
}

// Each error says what failed, AWS's reason, and what to do.
func TestErrorsOfEBSSayWhatToDo(t *testing.T) {
	const keyHint = "; allow kms:Decrypt, kms:Encrypt, kms:GenerateDataKey, kms:GenerateDataKeyWithoutPlaintext, kms:ReEncrypt*, kms:CreateGrant, kms:DescribeKey for the key, " +
		"in a policy of the caller and in the policy of the key"
	fail := func(action string, with ebsdirect.Failure) func(*ebsdirect.Double) {
		return func(d *ebsdirect.Double) { d.Fail(action, 99, with) }
	}
	for name, one := range map[string]struct {
		prepare func(*ebsdirect.Double)
		call    func(*testing.T, *awsapi.AWS) error
		want    string
	}{
		"no permission": {
			func(d *ebsdirect.Double) {
				d.Allowed = func(action, _ string, _ map[string][]string) bool { return action != "ebs:StartSnapshot" }
			}, starting(awsapi.NewSnapshot{}),
			"starting a snapshot: the permission ebs:StartSnapshot is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ebs:StartSnapshot " +
				"on resource: arn:aws:ec2:eu-west-1::snapshot/* because no identity-based policy allows the ebs:StartSnapshot action",
		},
		"no permission for tags": {
			func(d *ebsdirect.Double) {
				d.Allowed = func(action, _ string, _ map[string][]string) bool { return action != "ec2:CreateTags" }
			}, starting(awsapi.NewSnapshot{Tags: map[string]string{"k": "v"}}),
			"starting a snapshot: the permission ec2:CreateTags is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: ec2:CreateTags " +
				"on resource: arn:aws:ec2:eu-west-1::snapshot/* because no identity-based policy allows the ec2:CreateTags action",
		},
		"no permission for the key": {
			nil, starting(awsapi.NewSnapshot{Encrypted: true, Key: ownKey}),
			"starting a snapshot: the permission to use the KMS key is missing: the caller may not use the key " + ownKey + keyHint,
		},
		"KMS names the permission": {
			fail("StartSnapshot", ebsdirect.Failure{
				Status: 403, Code: "AccessDeniedException", Reason: "DEPENDENCY_ACCESS_DENIED",
				Message: "User: arn:aws:iam::123456789012:user/double is not authorized to perform: kms:CreateGrant on resource: " + ownKey,
			}), starting(awsapi.NewSnapshot{Encrypted: true}),
			"starting a snapshot: the permission kms:CreateGrant is missing: User: arn:aws:iam::123456789012:user/double is not authorized to perform: kms:CreateGrant on resource: " + ownKey + keyHint,
		},
		"no permission to decrypt": {
			func(d *ebsdirect.Double) {
				d.Keys = []string{ownKey}
				_ = d.Add(ebsdirect.Snapshot{ID: "snap-0cccccccccccccccc", Owner: d.Account, State: ebsdirect.Completed, Size: 1, Encrypted: true, Key: ownKey}, strings.NewReader(""))
				d.Allowed = func(action, _ string, _ map[string][]string) bool { return action != "kms:Decrypt" }
			}, listing("snap-0cccccccccccccccc"),
			"listing the blocks of the snapshot snap-0cccccccccccccccc: the permission to use the KMS key is missing: the caller may not call kms:Decrypt for the key " + ownKey +
				"; allow kms:Decrypt for the key, in a policy of the caller and in the policy of the key",
		},
		"disabled key": {
			func(d *ebsdirect.Double) { d.KeyStates[ownKey] = ebsdirect.Disabled }, starting(awsapi.NewSnapshot{Encrypted: true, Key: ownKey}),
			"starting a snapshot: ValidationException: the state of the key " + ownKey + " is Disabled; the KMS key must be an enabled symmetric key in the same region, given by its ARN",
		},
		"missing key": {
			func(d *ebsdirect.Double) { d.KeyStates[ownKey] = ebsdirect.Gone }, starting(awsapi.NewSnapshot{Encrypted: true, Key: ownKey}),
			"starting a snapshot: ResourceNotFoundException: the key " + ownKey + " does not exist; the KMS key must be an enabled symmetric key in the same region, given by its ARN",
		},
		"alias": {
			nil, starting(awsapi.NewSnapshot{Encrypted: true, Key: "alias/mine"}),
			"starting a snapshot: ValidationException: KmsKeyArn is not the ARN of a key; the KMS key must be an enabled symmetric key in the same region, given by its ARN",
		},
		"snapshot of another account": {
			nil, listing(foreignSnapshot),
			"listing the blocks of the snapshot snap-0bbbbbbbbbbbbbbbb: AccessDeniedException: the snapshot snap-0bbbbbbbbbbbbbbbb belongs to another account; " +
				"copy the snapshot of the other account with `aws ec2 copy-snapshot`",
		},
		"greater parent": {
			nil, starting(awsapi.NewSnapshot{Parent: ownSnapshot}),
			"starting a snapshot: ValidationException: the volume is smaller than the parent's; a snapshot has 1 to 65536 GiB, and at least the size of its parent",
		},
		"reserved tag": {
			nil, starting(awsapi.NewSnapshot{Tags: map[string]string{"aws:k": "v"}}),
			`starting a snapshot: ValidationException: the prefix aws: of a tag is reserved; ` +
				`a snapshot has up to 50 tags, keys with up to 127 characters and values with up to 255; ` +
				`the prefix aws: is reserved`,
		},
		"pending snapshots": {
			fail("StartSnapshot", ebsdirect.Failure{Status: 402, Code: "ServiceQuotaExceededException", Message: "Too many.", Reason: "DEPENDENCY_SERVICE_QUOTA_EXCEEDED"}),
			starting(awsapi.NewSnapshot{}),
			"starting a snapshot: ServiceQuotaExceededException: Too many; the region has too many pending snapshots; wait until they are completed, or delete those of failed uploads, " +
				"which `aws ec2 describe-snapshots --owner-ids self --filters Name=status,Values=pending` lists",
		},
		"throttled": {
			fail("StartSnapshot", ebsdirect.Failure{Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}), starting(awsapi.NewSnapshot{}),
			"starting a snapshot: ThrottlingException: Rate exceeded; other calls of the account use up the same quota; run the command again later",
		},
		"not printable": {
			fail("ListSnapshotBlocks", ebsdirect.Failure{Status: 400, Code: "ValidationException", Message: "a\x1b[31m\nb"}), listing(ownSnapshot),
			"listing the blocks of the snapshot snap-0aaaaaaaaaaaaaaaa: ValidationException: a [31m b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, a := ebsDouble(t)
			if one.prepare != nil {
				one.prepare(d)
			}
			assert.EqualError(t, one.call(t, a), one.want)
		})
	}
}

// A put that meets its own first attempt, or a slow network, is made again. A put
// without a key is not: the key does not come back.
func TestPutsThatAreMadeAgain(t *testing.T) {
	d, a := ebsDouble(t)
	id, err := a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "t", Size: 1, Timeout: time.Hour})
	require.NoError(t, err)
	block := make([]byte, awsapi.BlockSize)
	put := func() error { return a.PutBlock(t.Context(), id, 0, block, sha256.Sum256(block), time.Now()) }
	for _, reason := range []string{"CONFLICTING_BLOCK_UPDATE", "WRITE_REQUEST_TIMEOUT"} {
		d.Fail("PutSnapshotBlock", 2, ebsdirect.Failure{Status: 400, Code: "ValidationException", Message: "again", Reason: reason})
		require.NoError(t, put(), reason)
	}
	d.Fail("PutSnapshotBlock", 99, ebsdirect.Failure{Status: 400, Code: "ValidationException", Message: "again", Reason: "CONFLICTING_BLOCK_UPDATE"})
	require.ErrorContains(t, put(), "writing the block 0 of the snapshot "+id+": ValidationException: again")
	d.Heal()
	d.Fail("PutSnapshotBlock", 1, ebsdirect.Failure{Status: 404, Code: "ResourceNotFoundException", Message: "no key", Reason: "DEPENDENCY_RESOURCE_NOT_FOUND"})
	require.ErrorContains(t, put(), "no key; the KMS key must be")
	require.NoError(t, put())
}

// A wrong number of blocks shows only when the snapshot should be completed.
func TestASnapshotThatFails(t *testing.T) {
	d, a := ebsDouble(t)
	d.Completing = 2
	id, err := a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "t", Size: 1, Timeout: time.Hour})
	require.NoError(t, err)
	require.NoError(t, a.CompleteSnapshot(t.Context(), id, 1, sha256.Sum256(nil)))
	_, err = a.AwaitSnapshot(t.Context(), id)
	require.EqualError(t, err, "waiting for the snapshot "+id+": its state is error: ChangedBlocksCount is 1, but 0 blocks were written")
	require.False(t, errors.As(err, new(*awsapi.APIError)))
}
