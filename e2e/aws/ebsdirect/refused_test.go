package ebsdirect_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
)

const unknown = "snap-0123456789abcdef0"

func TestPutsThatAreRefused(t *testing.T) {
	block, value, id := "400 ValidationException INVALID_BLOCK", "400 ValidationException INVALID_PARAMETER_VALUE", "400 ValidationException INVALID_SNAPSHOT_ID"
	type in = ebs.PutSnapshotBlockInput
	for name, one := range map[string]struct {
		change func(*in)
		want   string
	}{
		"one byte less":       {func(in *in) { *in = *putIn(*in.SnapshotId, 0, filled('a')[1:]) }, block},
		"one byte more":       {func(in *in) { *in = *putIn(*in.SnapshotId, 0, append(filled('a'), 'a')) }, block},
		"wrong length":        {func(in *in) { in.DataLength = aws.Int32(512) }, block},
		"wrong checksum":      {func(in *in) { in.Checksum = putIn("", 0, filled('b')).Checksum }, block},
		"long checksum":       {func(in *in) { in.Checksum = aws.String(strings.Repeat("A", 65)) }, block},
		"wrong algorithm":     {func(in *in) { in.ChecksumAlgorithm = "MD5" }, value},
		"last block":          {func(in *in) { in.BlockIndex = aws.Int32(2047) }, ""},
		"behind the end":      {func(in *in) { in.BlockIndex = aws.Int32(2048) }, block},
		"negative index":      {func(in *in) { in.BlockIndex = aws.Int32(-1) }, block},
		"progress 100":        {func(in *in) { in.Progress = aws.Int32(100) }, ""},
		"progress 101":        {func(in *in) { in.Progress = aws.Int32(101) }, value},
		"negative progress":   {func(in *in) { in.Progress = aws.Int32(-1) }, value},
		"completed snapshot":  {func(in *in) { in.SnapshotId = aws.String(own) }, id},
		"errored snapshot":    {func(in *in) { in.SnapshotId = aws.String(errored) }, id},
		"unknown snapshot":    {func(in *in) { in.SnapshotId = aws.String(unknown) }, "404 ResourceNotFoundException SNAPSHOT_NOT_FOUND"},
		"foreign snapshot":    {func(in *in) { in.SnapshotId = aws.String(foreign) }, "404 ResourceNotFoundException SNAPSHOT_NOT_FOUND"},
		"malformed snapshot":  {func(in *in) { in.SnapshotId = aws.String("snap-1") }, id},
		"snapshot in capital": {func(in *in) { in.SnapshotId = aws.String("snap-0ABCDEF0") }, id},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			id := started(t, c, ebs.StartSnapshotInput{})
			in := putIn(id, 0, filled('a'))
			one.change(in)
			_, err := c.PutSnapshotBlock(t.Context(), in)
			require.Equal(t, one.want, refusal(err))
			require.Equal(t, one.want != "", len(d.Blocks(id)) == 0)
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
	value := "400 ValidationException INVALID_PARAMETER_VALUE"
	for name, one := range map[string]struct {
		count     int32
		sum       *string
		algorithm types.ChecksumAlgorithm
		method    types.ChecksumAggregationMethod
		want      string
	}{
		"negative count":     {-1, nil, "", "", value},
		"wrong order":        {2, linear('b', 'a'), "SHA256", "LINEAR", value},
		"one is missing":     {2, linear('a'), "SHA256", "LINEAR", value},
		"without algorithm":  {2, linear('a', 'b'), "", "LINEAR", value},
		"wrong algorithm":    {2, linear('a', 'b'), "SHA1", "LINEAR", value},
		"without the method": {2, linear('a', 'b'), "SHA256", "", value},
		"wrong method":       {2, linear('a', 'b'), "SHA256", "TREE", value},
		"only the method":    {2, nil, "", "LINEAR", value},
		"right":              {2, linear('a', 'b'), "SHA256", "LINEAR", ""},
		"without a checksum": {2, nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			d.Completing = 2
			id := started(t, c, ebs.StartSnapshotInput{})
			put(t, c, id, 9, filled('b'))
			put(t, c, id, 2, filled('a'))
			in := &ebs.CompleteSnapshotInput{
				SnapshotId: &id, ChangedBlocksCount: &one.count, Checksum: one.sum, ChecksumAlgorithm: one.algorithm, ChecksumAggregationMethod: one.method,
			}
			_, err := c.CompleteSnapshot(t.Context(), in)
			require.Equal(t, one.want, refusal(err))
			if one.want != "" {
				require.Equal(t, ebsdirect.Pending, d.Find(id).State)
				return
			}
			for _, state := range []string{ebsdirect.Pending, ebsdirect.Pending, ebsdirect.Completed} {
				s, _ := d.Describe(id)
				require.Equal(t, state, s.State)
			}
			_, err = c.CompleteSnapshot(t.Context(), in)
			require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(err), "twice")
			_, err = c.PutSnapshotBlock(t.Context(), putIn(id, 0, filled('a')))
			require.Equal(t, "400 ValidationException INVALID_SNAPSHOT_ID", refusal(err), "put after the completion")
		})
	}
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

func TestListsThatAreRefused(t *testing.T) {
	_, c := served(t)
	value, page := "400 ValidationException INVALID_PARAMETER_VALUE", "400 ValidationException INVALID_PAGE_TOKEN"
	for name, one := range map[string]struct {
		in   ebs.ListSnapshotBlocksInput
		want string
	}{
		"99 results":      {ebs.ListSnapshotBlocksInput{MaxResults: aws.Int32(99)}, value},
		"100 results":     {ebs.ListSnapshotBlocksInput{MaxResults: aws.Int32(100)}, ""},
		"10000 results":   {ebs.ListSnapshotBlocksInput{MaxResults: aws.Int32(10000)}, ""},
		"10001 results":   {ebs.ListSnapshotBlocksInput{MaxResults: aws.Int32(10001)}, value},
		"negative start":  {ebs.ListSnapshotBlocksInput{StartingBlockIndex: aws.Int32(-1)}, value},
		"unknown token":   {ebs.ListSnapshotBlocksInput{NextToken: aws.String("AAAA")}, page},
		"malformed token": {ebs.ListSnapshotBlocksInput{NextToken: aws.String("ä")}, page},
	} {
		one.in.SnapshotId = aws.String(own)
		_, err := c.ListSnapshotBlocks(t.Context(), &one.in)
		require.Equal(t, one.want, refusal(err), name)
		_, err = c.ListChangedBlocks(t.Context(), &ebs.ListChangedBlocksInput{
			FirstSnapshotId: aws.String(own), SecondSnapshotId: aws.String(own), MaxResults: one.in.MaxResults, NextToken: one.in.NextToken,
			StartingBlockIndex: one.in.StartingBlockIndex,
		})
		require.Equal(t, one.want, refusal(err), name)
	}
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

// rawPut is a put that is signed by hand.
type rawPut struct {
	access, secret, service, region, payload string
	at                                       time.Time
	after                                    func(*http.Request) // a change after the signature
}

func (r rawPut) send(t *testing.T, c *ebs.Client, id string) string {
	t.Helper()
	in := putIn(id, 0, filled('a'))
	call, err := http.NewRequestWithContext(t.Context(), http.MethodPut, *c.Options().BaseEndpoint+"/snapshots/"+id+"/blocks/0", bytes.NewReader(filled('a')))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"x-amz-Data-Length": "524288", "x-amz-Checksum": *in.Checksum, "x-amz-Checksum-Algorithm": "SHA256", "X-Amz-Content-Sha256": r.payload,
	} {
		if value != "" {
			call.Header.Set(name, value)
		}
	}
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: r.access, SecretAccessKey: r.secret}, call, r.payload, r.service, r.region, r.at))
	if r.after != nil {
		r.after(call)
	}
	out, err := http.DefaultClient.Do(call)
	require.NoError(t, err)
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	var failure struct{ Message string }
	require.NoError(t, json.Unmarshal(text, &failure))
	require.NotEmpty(t, out.Header.Get("X-Amzn-Requestid"))
	return strings.TrimSpace(out.Status[:3] + " " + out.Header.Get("X-Amzn-Errortype"))
}

func TestForgedCallsAreRefused(t *testing.T) {
	sum := sha256.Sum256(filled('a'))
	for name, one := range map[string]struct {
		change func(*rawPut)
		want   string
	}{
		"right":                {func(*rawPut) {}, "201"},
		"other access key":     {func(r *rawPut) { r.access = "AKIAOTHER" }, "403 InvalidClientTokenId"},
		"other secret":         {func(r *rawPut) { r.secret = "other" }, "403 InvalidSignatureException"},
		"other service":        {func(r *rawPut) { r.service = "ec2" }, "403 InvalidSignatureException"},
		"other region":         {func(r *rawPut) { r.region = "us-east-1" }, "403 InvalidSignatureException"},
		"old signature":        {func(r *rawPut) { r.at = r.at.Add(-16 * time.Minute) }, "400 RequestExpired"},
		"signature of later":   {func(r *rawPut) { r.at = r.at.Add(16 * time.Minute) }, "400 RequestExpired"},
		"signed body":          {func(r *rawPut) { r.payload = hex.EncodeToString(sum[:]) }, "201"},
		"hash of another body": {func(r *rawPut) { r.payload = hex.EncodeToString(make([]byte, 32)) }, "403 InvalidSignatureException"},
		"without a signature":  {func(r *rawPut) { r.after = func(in *http.Request) { in.Header.Del("Authorization") } }, "400 IncompleteSignature"},
		"changed checksum":     {func(r *rawPut) { r.after = func(in *http.Request) { in.Header.Set("X-Amz-Checksum", "AAAA") } }, "403 InvalidSignatureException"},
		"changed block":        {func(r *rawPut) { r.after = func(in *http.Request) { in.URL.Path += "1" } }, "403 InvalidSignatureException"},
		"unsigned progress":    {func(r *rawPut) { r.after = func(in *http.Request) { in.Header.Set("X-Amz-Progress", "1") } }, "400 IncompleteSignature"},
		"parameter of nothing": {func(r *rawPut) { r.after = func(in *http.Request) { in.URL.RawQuery = "x=1" } }, "403 InvalidSignatureException"},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := served(t)
			id := started(t, c, ebs.StartSnapshotInput{})
			r := rawPut{access: d.AccessKey, secret: d.Secret, service: "ebs", region: d.Region, payload: "UNSIGNED-PAYLOAD", at: time.Now()}
			one.change(&r)
			require.Equal(t, one.want, r.send(t, c, id))
			require.Equal(t, one.want == "201", len(d.Blocks(id)) == 1)
		})
	}
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
