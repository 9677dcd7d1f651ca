package ebsdirect_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
)

// Snapshots of every test.
const (
	foreign, public, own      = "snap-0aaaaaaaaaaaaaaaa", "snap-0bbbbbbbbbbbbbbbb", "snap-0cccccccccccccccc"
	plain, encrypted          = "snap-0dddddddddddddddd", "snap-0eeeeeeeeeeeeeeee"
	pending, errored, large   = "snap-0ffffffffffffffff", "snap-00000000000000000", "snap-01111111111111111"
	withDisabled, withForeign = "snap-02222222222222222", "snap-03333333333333333"
)

// served returns a double and the SDK's client for it. The client does not retry.
func served(t *testing.T) (*ebsdirect.Double, *ebs.Client) {
	t.Helper()
	d := ebsdirect.New(t.TempDir())
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	for _, s := range []ebsdirect.Snapshot{
		{ID: foreign, Owner: "210987654321", State: ebsdirect.Completed, Size: 1},
		{ID: public, Owner: "210987654321", State: ebsdirect.Completed, Size: 1, Public: true},
		{ID: own, Owner: d.Account, State: ebsdirect.Completed, Size: 1},
		{ID: plain, Owner: d.Account, State: ebsdirect.Completed, Size: 1},
		{ID: encrypted, Owner: d.Account, State: ebsdirect.Completed, Size: 1, Encrypted: true, Key: mine},
		{ID: pending, Owner: d.Account, State: ebsdirect.Pending, Size: 1},
		{ID: errored, Owner: d.Account, State: ebsdirect.Errored, Size: 1},
		{ID: large, Owner: d.Account, State: ebsdirect.Completed, Size: 2},
		{ID: withDisabled, Owner: d.Account, State: ebsdirect.Completed, Size: 1, Encrypted: true, Key: disabled},
		{ID: withForeign, Owner: d.Account, State: ebsdirect.Completed, Size: 1, Encrypted: true, Key: theirs},
	} {
		require.NoError(t, d.Add(s, strings.NewReader("made by EC2")))
	}
	return d, ebs.New(ebs.Options{
		BaseEndpoint: &server.URL, Region: d.Region, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider(d.AccessKey, "secret", ""),
	})
}

func started(t *testing.T, c *ebs.Client, in ebs.StartSnapshotInput) string {
	t.Helper()
	if in.VolumeSize == nil {
		in.VolumeSize = aws.Int64(1)
	}
	out, err := c.StartSnapshot(t.Context(), &in)
	require.NoError(t, err)
	return *out.SnapshotId
}

func filled(with byte) []byte { return bytes.Repeat([]byte{with}, ebsdirect.BlockSize) }

func putIn(id string, index int32, block []byte) *ebs.PutSnapshotBlockInput {
	sum := sha256.Sum256(block)
	return &ebs.PutSnapshotBlockInput{
		SnapshotId: &id, BlockIndex: &index, BlockData: bytes.NewReader(block), DataLength: aws.Int32(int32(len(block))),
		Checksum: aws.String(base64.StdEncoding.EncodeToString(sum[:])), ChecksumAlgorithm: types.ChecksumAlgorithmChecksumAlgorithmSha256,
	}
}

func put(t *testing.T, c *ebs.Client, id string, index int32, block []byte) {
	t.Helper()
	_, err := c.PutSnapshotBlock(t.Context(), putIn(id, index, block))
	require.NoError(t, err)
}

func complete(t *testing.T, c *ebs.Client, id string, blocks int32) {
	t.Helper()
	_, err := c.CompleteSnapshot(t.Context(), &ebs.CompleteSnapshotInput{SnapshotId: &id, ChangedBlocksCount: &blocks})
	require.NoError(t, err)
}

// refusal returns the HTTP status, the code and the reason of an error response.
func refusal(err error) string {
	var failure smithy.APIError
	var answer *http.ResponseError
	if err == nil {
		return ""
	}
	if !errors.As(err, &failure) || !errors.As(err, &answer) {
		return err.Error()
	}
	reason := ""
	switch one := failure.(type) {
	case *types.ValidationException:
		reason = string(one.Reason)
	case *types.AccessDeniedException:
		reason = string(one.Reason)
	case *types.ResourceNotFoundException:
		reason = string(one.Reason)
	case *types.RequestThrottledException:
		reason = string(one.Reason)
	case *types.ServiceQuotaExceededException:
		reason = string(one.Reason)
	}
	return strings.TrimSpace(fmt.Sprint(answer.HTTPStatusCode(), " ", failure.ErrorCode(), " ", reason))
}

func TestAPendingSnapshotTimesOut(t *testing.T) {
	d, c := served(t)
	now := time.Now()
	d.Now = func() time.Time { return now }
	id := started(t, c, ebs.StartSnapshotInput{Timeout: aws.Int32(10)})
	now = now.Add(9 * time.Minute)
	put(t, c, id, 0, filled('a'))
	now = now.Add(9 * time.Minute)
	put(t, c, id, 1, filled('a'))
	now = now.Add(10 * time.Minute)
	_, err := c.PutSnapshotBlock(t.Context(), putIn(id, 2, filled('a')))
	require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(err))
	require.Equal(t, ebsdirect.Errored, d.Find(id).State)
}

// Keys of KMS in the tests.
const (
	mine     = "arn:aws:kms:eu-west-1:123456789012:key/mine"
	theirs   = "arn:aws:kms:eu-west-1:210987654321:key/theirs"
	disabled = "arn:aws:kms:eu-west-1:123456789012:key/disabled"
	deleted  = "arn:aws:kms:eu-west-1:123456789012:key/deleted"
	gone     = "arn:aws:kms:eu-west-1:123456789012:key/gone"
)

// tagged makes a start with the tags, of pairs of a key and a value.
func tagged(pairs ...string) ebs.StartSnapshotInput {
	var in ebs.StartSnapshotInput
	for i := 0; i < len(pairs); i += 2 {
		in.Tags = append(in.Tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return in
}

// The tables of https://docs.aws.amazon.com/ebs/latest/userguide/ebsapis-using-encryption.html,
// row by row.
func TestEncryptionOutcomes(t *testing.T) {
	// The key by parent, Encrypted, KmsKeyArn and, if it is on, encryption by default; "" is an
	// unencrypted snapshot. All other calls fail.
	made := map[string]string{
		plain + " omitted omitted": "", encrypted + " omitted omitted": mine, encrypted + " omitted omitted default": mine,
		"none true omitted": "default", "none true omitted default": "default", "none true given": mine,
		"none true given default": mine, "none false omitted": "", "none omitted omitted": "",
		"none omitted omitted default": "default", "none omitted given": mine, "none omitted given default": mine,
	}
	for n := range 3 * 3 * 2 * 2 {
		parent, said := []string{"none", plain, encrypted}[n%3], []string{"omitted", "true", "false"}[n/3%3]
		key, byDefault := []string{"omitted", "given"}[n/9%2], n/18 == 1
		row := strings.Join([]string{parent, said, key}, " ")
		if byDefault {
			row += " default"
		}
		t.Run(row, func(t *testing.T) {
			d, c := served(t)
			d.Keys, d.EncryptByDefault = []string{mine}, byDefault
			in := &ebs.StartSnapshotInput{VolumeSize: aws.Int64(1)}
			if said != "omitted" {
				in.Encrypted = aws.Bool(said == "true")
			}
			if key == "given" {
				in.KmsKeyArn = aws.String(mine)
			}
			if parent != "none" {
				in.ParentSnapshotId = aws.String(parent)
			}
			out, err := c.StartSnapshot(t.Context(), in)
			want, succeeds := made[row]
			if !succeeds {
				require.Equal(t, "400 ValidationException INVALID_PARAMETER_VALUE", refusal(err))
				return
			}
			require.NoError(t, err)
			if want == "default" {
				want = d.DefaultKey
			}
			got := d.Find(*out.SnapshotId)
			require.Equal(t, want, got.Key)
			require.Equal(t, want != "", got.Encrypted)
		})
	}
}

func TestClientTokens(t *testing.T) {
	d, c := served(t)
	before := len(d.IDs())
	in := ebs.StartSnapshotInput{ClientToken: aws.String("one")}
	id := started(t, c, in)
	require.Equal(t, id, started(t, c, in))
	for name, change := range map[string]func(*ebs.StartSnapshotInput){
		"size":        func(in *ebs.StartSnapshotInput) { in.VolumeSize = aws.Int64(2) },
		"timeout":     func(in *ebs.StartSnapshotInput) { in.Timeout = aws.Int32(60) },
		"description": func(in *ebs.StartSnapshotInput) { in.Description = aws.String("other") },
		"tags":        func(in *ebs.StartSnapshotInput) { in.Tags = tagged("k", "v").Tags },
		"parent":      func(in *ebs.StartSnapshotInput) { in.ParentSnapshotId = aws.String(own) },
	} {
		other := ebs.StartSnapshotInput{ClientToken: in.ClientToken, VolumeSize: aws.Int64(1)}
		change(&other)
		_, err := c.StartSnapshot(t.Context(), &other)
		require.Equal(t, "409 ConflictException", refusal(err), name)
	}
	require.Len(t, d.IDs(), before+1)
	put(t, c, id, 0, filled('a'))
	complete(t, c, id, 1)
	require.Equal(t, id, started(t, c, in), "the token of a completed snapshot still returns that snapshot")
	require.True(t, d.Delete(id))
	_, err := c.StartSnapshot(t.Context(), &ebs.StartSnapshotInput{ClientToken: in.ClientToken, VolumeSize: aws.Int64(1)})
	require.Equal(t, "404 ResourceNotFoundException SNAPSHOT_NOT_FOUND", refusal(err))
}
