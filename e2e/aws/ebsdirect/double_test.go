package ebsdirect_test

import (
	"bytes"
	"context"
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
		Credentials: credentials.NewStaticCredentialsProvider(d.AccessKey, d.Secret, ""),
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

func TestQuotasAndFaults(t *testing.T) {
	d, c := served(t)
	d.Quotas = ebsdirect.Quotas{Start: 2, Pending: 3} // one is pending already
	d.NotFoundYet = 1
	id := started(t, c, ebs.StartSnapshotInput{})
	_, err := c.PutSnapshotBlock(t.Context(), putIn(id, 0, filled('a')))
	require.Equal(t, "404 ResourceNotFoundException SNAPSHOT_NOT_FOUND", refusal(err), "too early")
	put(t, c, id, 0, filled('a'))
	started(t, c, ebs.StartSnapshotInput{})
	_, err = c.StartSnapshot(t.Context(), &ebs.StartSnapshotInput{VolumeSize: aws.Int64(1)})
	require.Equal(t, "400 ThrottlingException", refusal(err))
	d.Quotas.Start = 0
	_, err = c.StartSnapshot(t.Context(), &ebs.StartSnapshotInput{VolumeSize: aws.Int64(1)})
	require.Equal(t, "402 ServiceQuotaExceededException DEPENDENCY_SERVICE_QUOTA_EXCEEDED", refusal(err))

	d.Fail("PutSnapshotBlock", 1, ebsdirect.Failure{})
	_, err = c.PutSnapshotBlock(t.Context(), putIn(id, 1, filled('a')))
	require.ErrorContains(t, err, "EOF")
	d.Quotas.Concurrent = 1
	d.Before("PutSnapshotBlock", func() {
		d.Before("PutSnapshotBlock", nil)
		_, err := c.PutSnapshotBlock(context.Background(), putIn(id, 1, filled('a')))
		require.Equal(t, "400 ConcurrentLimitExceededException", refusal(err))
	})
	put(t, c, id, 1, filled('a'))
	require.Equal(t, int64(2*ebsdirect.BlockSize), d.Count().Sent)
	require.Equal(t, 5, d.Count().Calls["PutSnapshotBlock"])
}

// A snapshot has a quota of its own, with another error.
func TestQuotasOfASnapshot(t *testing.T) {
	d, c := served(t)
	d.Quotas = ebsdirect.Quotas{Put: 100, PutEach: 1}
	one, two := started(t, c, ebs.StartSnapshotInput{}), started(t, c, ebs.StartSnapshotInput{})
	put(t, c, one, 0, filled('a'))
	put(t, c, two, 0, filled('a'))
	_, err := c.PutSnapshotBlock(t.Context(), putIn(one, 1, filled('a')))
	require.Equal(t, "400 RequestThrottledException RESOURCE_LEVEL_THROTTLE", refusal(err))
}
