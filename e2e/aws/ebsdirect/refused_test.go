package ebsdirect_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const unknown = "snap-0123456789abcdef0"

// refused are the calls of rules.yaml. Each makes a right call with the changes of a sample.
var refused = map[string]func(*testing.T, *ebsdirect.Double, *ebs.Client, json.RawMessage) error{
	"StartSnapshot": func(t *testing.T, d *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
		d.Keys = []string{mine, disabled, deleted}
		d.KeyStates = map[string]string{
			disabled: ebsdirect.Disabled, deleted: ebsdirect.PendingDeletion, gone: ebsdirect.Gone,
		}
		before := len(d.IDs())
		in := ebs.StartSnapshotInput{VolumeSize: aws.Int64(1)}
		require.NoError(t, endpoint.Change(&in, sample))
		_, err := c.StartSnapshot(t.Context(), &in)
		require.Equal(t, err == nil, len(d.IDs()) > before)
		return err
	},
	"PutSnapshotBlock": func(t *testing.T, d *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
		id := started(t, c, ebs.StartSnapshotInput{})
		sized := struct{ Bytes int }{ebsdirect.BlockSize}
		require.NoError(t, endpoint.Change(&sized, sample))
		in := putIn(id, 0, bytes.Repeat([]byte{'a'}, sized.Bytes))
		require.NoError(t, endpoint.Change(in, sample))
		_, err := c.PutSnapshotBlock(t.Context(), in)
		require.Equal(t, err != nil, len(d.Blocks(id)) == 0)
		return err
	},
	"CompleteSnapshot": completes,
	"ListSnapshotBlocks": func(t *testing.T, _ *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
		in := ebs.ListSnapshotBlocksInput{SnapshotId: aws.String(own)}
		require.NoError(t, endpoint.Change(&in, sample))
		_, err := c.ListSnapshotBlocks(t.Context(), &in)
		return err
	},
	"ListChangedBlocks": func(t *testing.T, _ *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
		in := ebs.ListChangedBlocksInput{FirstSnapshotId: aws.String(own), SecondSnapshotId: aws.String(own)}
		require.NoError(t, endpoint.Change(&in, sample))
		_, err := c.ListChangedBlocks(t.Context(), &in)
		return err
	},
	"Signature": func(t *testing.T, d *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
		var header resigned
		require.NoError(t, endpoint.Change(&header, sample))
		_, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: aws.String(own)},
			func(o *ebs.Options) { o.HTTPClient = &http.Client{Transport: header} })
		return err
	},
}

// resigned changes the header of a signature.
type resigned struct{ Old, New string }

func (r resigned) RoundTrip(in *http.Request) (*http.Response, error) {
	in.Header.Set("Authorization", strings.Replace(in.Header.Get("Authorization"), r.Old, r.New, 1))
	return http.DefaultTransport.RoundTrip(in)
}

// Each rule has a source and refuses its samples.
func TestCallsThatAreRefused(t *testing.T) {
	for call, rules := range endpoint.ReadRules([]byte(testkit.Content(t, "rules.yaml"))).Calls {
		for _, rule := range rules {
			require.NotEmpty(t, rule.From, rule.Says)
			require.NotEmpty(t, rule.Samples, rule.Says)
			want := ""
			if rule.Code != "" {
				status := cmp.Or(rule.Status, http.StatusBadRequest)
				want = strings.TrimSpace(fmt.Sprint(status, " ", rule.Code, " ", rule.Reason))
			}
			for _, sample := range rule.Samples {
				t.Run(call+" "+string(sample), func(t *testing.T) {
					d, c := served(t)
					err := refused[call](t, d, c, sample)
					require.Equal(t, want, refusal(err))
					if rule.When != "" {
						require.ErrorContains(t, err, rule.Says)
					}
				})
			}
		}
	}
}

// completes completes a snapshot of the blocks a and b. It is shown as pending for a while, and
// cannot be completed or written again.
func completes(t *testing.T, d *ebsdirect.Double, c *ebs.Client, sample json.RawMessage) error {
	d.Completing = 2
	id := started(t, c, ebs.StartSnapshotInput{})
	put(t, c, id, 9, filled('b'))
	put(t, c, id, 2, filled('a'))
	in := struct {
		ebs.CompleteSnapshotInput
		Of string
	}{CompleteSnapshotInput: ebs.CompleteSnapshotInput{SnapshotId: &id, ChangedBlocksCount: aws.Int32(2)}}
	require.NoError(t, endpoint.Change(&in, sample))
	if in.Of != "" {
		all := sha256.New()
		for _, b := range []byte(in.Of) {
			sum := sha256.Sum256(filled(b))
			all.Write(sum[:])
		}
		in.Checksum = aws.String(base64.StdEncoding.EncodeToString(all.Sum(nil)))
	}
	_, err := c.CompleteSnapshot(t.Context(), &in.CompleteSnapshotInput)
	if err != nil {
		require.Equal(t, ebsdirect.Pending, d.Find(id).State)
		return err
	}
	for _, state := range []string{ebsdirect.Pending, ebsdirect.Pending, ebsdirect.Completed} {
		s, _ := d.Describe(id)
		require.Equal(t, state, s.State)
	}
	_, again := c.CompleteSnapshot(t.Context(), &in.CompleteSnapshotInput)
	require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(again), "twice")
	_, late := c.PutSnapshotBlock(t.Context(), putIn(id, 0, filled('a')))
	require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(late), "put after the completion")
	return nil
}

func TestReadsThatAreRefused(t *testing.T) {
	d, c := served(t)
	d.Keys, d.KeyStates = []string{mine, disabled}, map[string]string{disabled: ebsdirect.Disabled}
	completing := started(t, c, ebs.StartSnapshotInput{})
	d.Completing = 1
	sealed := started(t, c, ebs.StartSnapshotInput{})
	complete(t, c, sealed, 0)
	for id, want := range map[string]string{
		own: "", encrypted: "", completing: "400 ValidationException INVALID_SNAPSHOT_ID", sealed: "400 ValidationException INVALID_SNAPSHOT_ID",
		errored: "400 ValidationException INVALID_SNAPSHOT_ID", pending: "400 ValidationException INVALID_SNAPSHOT_ID",
		public: "400 ValidationException INVALID_SNAPSHOT_ID", "snap-1": "400 ValidationException INVALID_SNAPSHOT_ID",
		foreign: "403 AccessDeniedException UNAUTHORIZED_ACCOUNT", unknown: "404 ResourceNotFoundException SNAPSHOT_NOT_FOUND",
		withDisabled: "400 ValidationException INVALID_CUSTOMER_KEY", withForeign: "403 AccessDeniedException DEPENDENCY_ACCESS_DENIED",
	} {
		_, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id})
		require.Equal(t, want, refusal(err), id)
		_, err = c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{FirstSnapshotId: &id, SecondSnapshotId: &id})
		require.Equal(t, want, refusal(err), id)
		_, err = c.GetSnapshotBlock(t.Context(), &ebs.GetSnapshotBlockInput{SnapshotId: &id, BlockIndex: aws.Int32(0), BlockToken: aws.String("AAAA")})
		want = cmp.Or(want, "400 ValidationException INVALID_BLOCK_TOKEN")
		require.Equal(t, want, refusal(err), id)
	}
	_, err := c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{SecondSnapshotId: aws.String(own)})
	require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(err), "one snapshot")
	_, err = c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{FirstSnapshotId: aws.String(own), SecondSnapshotId: aws.String(plain)})
	require.Equal(t, "400 ValidationException UNRELATED_SNAPSHOTS", refusal(err))
}

// A token is for one list, and lives for 60 minutes. With a token, the start of the list
// is ignored.
func TestPageTokensExpire(t *testing.T) {
	d, c := served(t)
	d.Quotas = ebsdirect.Quotas{}
	now := time.Now()
	d.Now = func() time.Time { return now }
	parent, other := started(t, c, ebs.StartSnapshotInput{}), started(t, c, ebs.StartSnapshotInput{})
	for index := range int32(150) {
		put(t, c, parent, index, filled('a'))
	}
	complete(t, c, parent, 150)
	complete(t, c, other, 0)
	list := func(id string, token *string, from int32) ([]types.Block, *string, string) {
		out, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id, MaxResults: aws.Int32(100), NextToken: token, StartingBlockIndex: &from})
		if err != nil {
			return nil, nil, refusal(err)
		}
		return out.Blocks, out.NextToken, ""
	}
	blocks, token, _ := list(parent, nil, 20)
	require.Equal(t, int32(20), *blocks[0].BlockIndex)
	require.Len(t, blocks, 100)
	blocks, end, _ := list(parent, token, 7)
	require.Equal(t, int32(120), *blocks[0].BlockIndex)
	require.Nil(t, end)
	_, _, said := list(other, token, 0)
	require.Equal(t, "400 ValidationException INVALID_PAGE_TOKEN", said, "another snapshot's token")
	now = now.Add(time.Hour)
	_, _, said = list(parent, token, 0)
	require.Empty(t, said)
	now = now.Add(time.Second)
	_, _, said = list(parent, token, 0)
	require.Equal(t, "400 ValidationException INVALID_PAGE_TOKEN", said)
}

// A token is for one block of one snapshot.
func TestBlockTokensAreForOneBlock(t *testing.T) {
	_, c := served(t)
	id := started(t, c, ebs.StartSnapshotInput{})
	put(t, c, id, 0, filled('a'))
	put(t, c, id, 1, filled('b'))
	complete(t, c, id, 2)
	out, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id})
	require.NoError(t, err)
	token := out.Blocks[0].BlockToken
	get := func(id string, index int32, token *string) string {
		_, err := c.GetSnapshotBlock(t.Context(), &ebs.GetSnapshotBlockInput{SnapshotId: &id, BlockIndex: &index, BlockToken: token})
		return refusal(err)
	}
	require.Empty(t, get(id, 0, token))
	require.Equal(t, "400 ValidationException INVALID_BLOCK_TOKEN", get(id, 1, token))
	require.Equal(t, "400 ValidationException INVALID_BLOCK_TOKEN", get(own, 0, token))
	require.Equal(t, "400 ValidationException INVALID_BLOCK_TOKEN", get(id, 0, aws.String(strings.Repeat("A", 257))))
}

// A policy decides about each call and its resource, and about the calls that EBS makes
// to KMS.
func TestPermissions(t *testing.T) {
	d, c := served(t)
	d.Keys = []string{mine}
	var checked []string
	missing := ""
	d.Allowed = func(action, resource string, keys map[string][]string) bool {
		checked = append(checked, action+" "+resource)
		if strings.HasPrefix(action, "kms:") {
			require.Equal(t, []string{"ec2.eu-west-1.amazonaws.com"}, keys["kms:viaservice"])
		}
		return action != missing
	}
	id := started(t, c, ebs.StartSnapshotInput{Encrypted: aws.Bool(true), KmsKeyArn: aws.String(mine), Tags: tagged("k", "v").Tags})
	put(t, c, id, 0, filled('a'))
	complete(t, c, id, 1)
	list, err := c.ListSnapshotBlocks(t.Context(), &ebs.ListSnapshotBlocksInput{SnapshotId: &id})
	require.NoError(t, err)
	require.Subset(t, checked, []string{
		"ebs:StartSnapshot arn:aws:ec2:eu-west-1::snapshot/*", "ec2:CreateTags arn:aws:ec2:eu-west-1::snapshot/*", "kms:CreateGrant " + mine,
		"ebs:PutSnapshotBlock arn:aws:ec2:eu-west-1::snapshot/" + id, "ebs:ListSnapshotBlocks arn:aws:ec2:eu-west-1::snapshot/" + id, "kms:Decrypt " + mine,
	})
	missing = "ebs:GetSnapshotBlock"
	_, err = c.GetSnapshotBlock(t.Context(), &ebs.GetSnapshotBlockInput{SnapshotId: &id, BlockIndex: aws.Int32(0), BlockToken: list.Blocks[0].BlockToken})
	require.Equal(t, "403 AccessDeniedException", refusal(err))
	require.ErrorContains(t, err, "is not authorized to perform: ebs:GetSnapshotBlock on resource: arn:aws:ec2:eu-west-1::snapshot/"+id)
	missing = "kms:GenerateDataKeyWithoutPlaintext"
	_, err = c.StartSnapshot(t.Context(), &ebs.StartSnapshotInput{VolumeSize: aws.Int64(1), Encrypted: aws.Bool(true)})
	require.Equal(t, "403 AccessDeniedException DEPENDENCY_ACCESS_DENIED", refusal(err))
}
