package ebsdirect_test

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
)

func TestStartsThatAreRefused(t *testing.T) {
	const key, other = "arn:aws:kms:eu-west-1:123456789012:key/mine", "arn:aws:kms:eu-west-1:123456789012:key/theirs"
	yes, no := aws.Bool(true), aws.Bool(false)
	for name, one := range map[string]struct {
		byDefault bool
		in        ebs.StartSnapshotInput
		want      string
	}{
		"no size":                          {false, ebs.StartSnapshotInput{VolumeSize: aws.Int64(0)}, "ValidationException INVALID_VOLUME_SIZE"},
		"too large":                        {false, ebs.StartSnapshotInput{VolumeSize: aws.Int64(65537)}, "ValidationException INVALID_VOLUME_SIZE"},
		"short timeout":                    {false, ebs.StartSnapshotInput{Timeout: aws.Int32(9)}, "ValidationException INVALID_PARAMETER_VALUE"},
		"long timeout":                     {false, ebs.StartSnapshotInput{Timeout: aws.Int32(4321)}, "ValidationException INVALID_PARAMETER_VALUE"},
		"51 tags":                          {false, ebs.StartSnapshotInput{Tags: make51()}, "ValidationException INVALID_TAG"},
		"reserved tag":                     {false, ebs.StartSnapshotInput{Tags: []types.Tag{{Key: aws.String("aws:x"), Value: aws.String("")}}}, "ValidationException INVALID_TAG"},
		"unknown parent":                   {false, ebs.StartSnapshotInput{ParentSnapshotId: aws.String("snap-0123456789abcdef0")}, "ResourceNotFoundException"},
		"parent of another account":        {false, ebs.StartSnapshotInput{ParentSnapshotId: aws.String(foreign)}, "AccessDeniedException UNAUTHORIZED_ACCOUNT"},
		"public parent":                    {false, ebs.StartSnapshotInput{ParentSnapshotId: aws.String(public)}, "ValidationException INVALID_SNAPSHOT_ID"},
		"parent and Encrypted":             {false, ebs.StartSnapshotInput{ParentSnapshotId: aws.String(own), Encrypted: no}, "ValidationException INVALID_PARAMETER_VALUE"},
		"parent and key":                   {false, ebs.StartSnapshotInput{ParentSnapshotId: aws.String(own), KmsKeyArn: aws.String(key)}, "ValidationException INVALID_PARAMETER_VALUE"},
		"plain parent, encryption default": {true, ebs.StartSnapshotInput{ParentSnapshotId: aws.String(own)}, "ValidationException INVALID_PARAMETER_VALUE"},
		"plain, encryption default":        {true, ebs.StartSnapshotInput{Encrypted: no}, "ValidationException INVALID_PARAMETER_VALUE"},
		"key without Encrypted":            {false, ebs.StartSnapshotInput{KmsKeyArn: aws.String(key)}, "ValidationException INVALID_PARAMETER_VALUE"},
		"foreign key":                      {false, ebs.StartSnapshotInput{Encrypted: yes, KmsKeyArn: aws.String(other)}, "AccessDeniedException DEPENDENCY_ACCESS_DENIED"},
		"key":                              {false, ebs.StartSnapshotInput{Encrypted: yes, KmsKeyArn: aws.String(key)}, ""},
		"encryption default":               {true, ebs.StartSnapshotInput{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			d.EncryptByDefault, d.Keys = one.byDefault, []string{key}
			if one.in.VolumeSize == nil {
				one.in.VolumeSize = aws.Int64(1)
			}
			_, err := c.StartSnapshot(t.Context(), &one.in)
			require.Equal(t, one.want, code(err))
			if one.want != "" {
				require.Len(t, d.IDs(), 3, "nothing was started")
			}
		})
	}
}

func make51() []types.Tag {
	var all []types.Tag
	for i := range 51 {
		all = append(all, types.Tag{Key: aws.String(strings.Repeat("k", i+1)), Value: aws.String("")})
	}
	return all
}

func TestClientTokens(t *testing.T) {
	d, c := served(t)
	in := ebs.StartSnapshotInput{ClientToken: aws.String("one")}
	id := started(t, c, in)
	require.Equal(t, id, started(t, c, in))
	in.VolumeSize = aws.Int64(2)
	_, err := c.StartSnapshot(t.Context(), &in)
	require.Equal(t, "ConflictException", code(err))
	require.Len(t, d.IDs(), 4)
}

func TestPutsThatAreRefused(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*ebs.PutSnapshotBlockInput)
		want   string
	}{
		"short":              {func(in *ebs.PutSnapshotBlockInput) { *in = *putIn(*in.SnapshotId, 0, filled('a')[1:]) }, "ValidationException INVALID_BLOCK"},
		"wrong length":       {func(in *ebs.PutSnapshotBlockInput) { in.DataLength = aws.Int32(512) }, "ValidationException INVALID_BLOCK"},
		"wrong checksum":     {func(in *ebs.PutSnapshotBlockInput) { in.Checksum = putIn("", 0, filled('b')).Checksum }, "ValidationException INVALID_BLOCK"},
		"behind the end":     {func(in *ebs.PutSnapshotBlockInput) { in.BlockIndex = aws.Int32(2048) }, "ValidationException INVALID_BLOCK"},
		"progress":           {func(in *ebs.PutSnapshotBlockInput) { in.Progress = aws.Int32(101) }, "ValidationException INVALID_PARAMETER_VALUE"},
		"completed snapshot": {func(in *ebs.PutSnapshotBlockInput) { in.SnapshotId = aws.String(own) }, "ValidationException INVALID_SNAPSHOT_ID"},
		"unknown snapshot":   {func(in *ebs.PutSnapshotBlockInput) { in.SnapshotId = aws.String("snap-0123456789abcdef0") }, "ResourceNotFoundException"},
		"malformed snapshot": {func(in *ebs.PutSnapshotBlockInput) { in.SnapshotId = aws.String("snap-1") }, "ValidationException INVALID_SNAPSHOT_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			id := started(t, c, ebs.StartSnapshotInput{})
			in := putIn(id, 0, filled('a'))
			one.change(in)
			_, err := c.PutSnapshotBlock(t.Context(), in)
			require.Equal(t, one.want, code(err))
			require.Empty(t, d.Blocks(id))
		})
	}
}

func TestCompletionsThatAreRefused(t *testing.T) {
	linear := func(blocks ...byte) *string {
		all := sha256.New()
		for _, b := range blocks {
			sum := sha256.Sum256(filled(b))
			all.Write(sum[:])
		}
		return aws.String(base64.StdEncoding.EncodeToString(all.Sum(nil)))
	}
	for name, one := range map[string]struct {
		count int32
		sum   *string
		want  string
	}{
		"count":       {3, nil, "ValidationException INVALID_PARAMETER_VALUE"},
		"wrong order": {2, linear('b', 'a'), "ValidationException INVALID_PARAMETER_VALUE"},
		"right":       {2, linear('a', 'b'), ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			d.Completing = 2
			id := started(t, c, ebs.StartSnapshotInput{})
			put(t, c, id, 9, filled('b'))
			put(t, c, id, 2, filled('a'))
			in := &ebs.CompleteSnapshotInput{SnapshotId: &id, ChangedBlocksCount: &one.count, Checksum: one.sum}
			if one.sum != nil {
				in.ChecksumAlgorithm, in.ChecksumAggregationMethod = types.ChecksumAlgorithmChecksumAlgorithmSha256, types.ChecksumAggregationMethodChecksumAggregationLinear
			}
			_, err := c.CompleteSnapshot(t.Context(), in)
			require.Equal(t, one.want, code(err))
			if one.want != "" {
				require.Equal(t, ebsdirect.Pending, d.Find(id).State)
				return
			}
			for _, state := range []string{ebsdirect.Pending, ebsdirect.Pending, ebsdirect.Completed} {
				s, _ := d.Describe(id)
				require.Equal(t, state, s.State)
			}
			_, err = c.CompleteSnapshot(t.Context(), in)
			require.Equal(t, "ValidationException INVALID_SNAPSHOT_ID", code(err), "twice")
		})
	}
}

func TestReadsThatAreRefused(t *testing.T) {
	_, c := served(t)
	pending := started(t, c, ebs.StartSnapshotInput{})
	for id, want := range map[string]string{
		pending: "ValidationException INVALID_SNAPSHOT_ID", foreign: "AccessDeniedException UNAUTHORIZED_ACCOUNT",
		public: "ValidationException INVALID_SNAPSHOT_ID", "snap-0123456789abcdef0": "ResourceNotFoundException",
	} {
		_, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id})
		require.Equal(t, want, code(err), id)
	}
}
