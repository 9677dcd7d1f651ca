package ebsdirect_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
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

func TestASnapshotHoldsWhatWasPut(t *testing.T) {
	d, c := served(t)
	id := started(t, c, ebs.StartSnapshotInput{})
	put(t, c, id, 3, filled('a'))
	put(t, c, id, 3, filled('b')) // a block may be written again
	put(t, c, id, 2047, filled('c'))
	complete(t, c, id, 2)

	list, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id})
	require.NoError(t, err)
	require.Len(t, list.Blocks, 2)
	block, err := c.GetSnapshotBlock(t.Context(), &ebs.GetSnapshotBlockInput{SnapshotId: &id, BlockIndex: list.Blocks[0].BlockIndex, BlockToken: list.Blocks[0].BlockToken})
	require.NoError(t, err)
	text, err := io.ReadAll(block.BlockData)
	require.NoError(t, err)
	require.Equal(t, filled('b'), text)

	for encrypted, hole := range map[bool]string{false: "\x00", true: "\xa5"} {
		disk, err := d.Volume(id, encrypted)
		require.NoError(t, err)
		first := make([]byte, 4*ebsdirect.BlockSize)
		_, err = io.ReadFull(disk, first)
		require.NoError(t, err)
		require.Equal(t, hole, string(first[:1]))
		require.Equal(t, filled('b'), first[3*ebsdirect.BlockSize:])
	}
}

func TestAChildHasItsParentsBlocks(t *testing.T) {
	d, c := served(t)
	parent := started(t, c, ebs.StartSnapshotInput{})
	put(t, c, parent, 0, filled('a'))
	put(t, c, parent, 1, filled('b'))
	complete(t, c, parent, 2)
	child := started(t, c, ebs.StartSnapshotInput{ParentSnapshotId: &parent})
	put(t, c, child, 1, filled('c'))
	put(t, c, child, 2, filled('d'))
	complete(t, c, child, 2)
	require.True(t, d.Delete(parent))

	list, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &child})
	require.NoError(t, err)
	require.Len(t, list.Blocks, 3)
	require.Equal(t, sha256.Sum256(filled('a')), d.Blocks(child)[0])
}

func TestChangedBlocksOfALineage(t *testing.T) {
	_, c := served(t)
	parent := started(t, c, ebs.StartSnapshotInput{})
	put(t, c, parent, 0, filled('a'))
	complete(t, c, parent, 1)
	child := started(t, c, ebs.StartSnapshotInput{ParentSnapshotId: &parent})
	put(t, c, child, 0, filled('b'))
	put(t, c, child, 5, filled('c'))
	complete(t, c, child, 2)

	out, err := c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{FirstSnapshotId: &parent, SecondSnapshotId: &child})
	require.NoError(t, err)
	require.Len(t, out.ChangedBlocks, 2)
	require.NotNil(t, out.ChangedBlocks[0].FirstBlockToken)
	require.Nil(t, out.ChangedBlocks[1].FirstBlockToken, "the parent does not have this block")
	_, err = c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{FirstSnapshotId: aws.String(own), SecondSnapshotId: &child})
	require.Equal(t, "400 ValidationException UNRELATED_SNAPSHOTS", refusal(err))
}

func TestListsHavePages(t *testing.T) {
	d, c := served(t)
	d.EmptyPages = true
	d.Quotas.Put = 0
	id := started(t, c, ebs.StartSnapshotInput{})
	for index := range int32(250) {
		put(t, c, id, index, filled('a'))
	}
	complete(t, c, id, 250)
	var seen []int32
	empty := 0
	pages := ebs.NewListSnapshotBlocksPaginator(c, &ebs.ListSnapshotBlocksInput{SnapshotId: &id, MaxResults: aws.Int32(100)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		if len(page.Blocks) == 0 {
			empty++
		}
		for _, b := range page.Blocks {
			seen = append(seen, *b.BlockIndex)
		}
	}
	require.Len(t, seen, 250)
	require.IsIncreasing(t, seen)
	require.Equal(t, 2, empty)
	_, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id, MaxResults: aws.Int32(99)})
	require.Equal(t, "400 ValidationException INVALID_PARAMETER_VALUE", refusal(err))
}

func TestTokensExpire(t *testing.T) {
	d, c := served(t)
	now := time.Now()
	d.Now = func() time.Time { return now }
	id := aws.String(own)
	list := func() *string {
		out, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: id})
		require.NoError(t, err)
		return out.Blocks[0].BlockToken
	}
	get := func(token *string) string {
		_, err := c.GetSnapshotBlock(t.Context(), &ebs.GetSnapshotBlockInput{SnapshotId: id, BlockIndex: aws.Int32(0), BlockToken: token})
		return refusal(err)
	}
	old := list()
	require.Empty(t, get(old))
	token := list()
	require.Equal(t, "400 ValidationException INVALID_BLOCK_TOKEN", get(old), "another list was made")
	now = now.Add(7*24*time.Hour + time.Second)
	require.Equal(t, "400 ValidationException INVALID_BLOCK_TOKEN", get(token))
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
