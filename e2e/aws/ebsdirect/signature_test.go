package ebsdirect_test

import (
	"bytes"
	"crypto/sha256"
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
	"github.com/stretchr/testify/require"
)

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
