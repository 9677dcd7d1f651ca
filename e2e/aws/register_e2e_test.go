//go:build e2e && linux

package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
)

func client(w *World) *ec2.Client {
	url := w.Serve()
	return ec2.New(ec2.Options{
		BaseEndpoint: &url, Region: Region, Retryer: sdk.NopRetryer{},
		Credentials: sdk.CredentialsProviderFunc(func(context.Context) (sdk.Credentials, error) {
			return sdk.Credentials{AccessKeyID: AccessKey, SecretAccessKey: "secret"}, nil
		}),
	})
}

func code(err error) string {
	if failure, ok := errors.AsType[smithy.APIError](err); ok {
		return failure.ErrorCode()
	}
	return fmt.Sprint(err)
}

// node is an image that EC2 accepts.
func node() *ec2.RegisterImageInput {
	return &ec2.RegisterImageInput{
		Name: sdk.String("node"), Architecture: types.ArchitectureValuesX8664, VirtualizationType: sdk.String("hvm"), EnaSupport: sdk.Bool(true),
		BootMode: types.BootModeValuesUefiPreferred, RootDeviceName: sdk.String("/dev/xvda"),
		BlockDeviceMappings: []types.BlockDeviceMapping{{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.EbsBlockDevice{
			SnapshotId: sdk.String("snap-0123456789abcdef0"), VolumeType: types.VolumeTypeGp3, DeleteOnTermination: sdk.Bool(true),
		}}},
	}
}

// TestImagesThatEC2Refuses sends the samples of each rule.
func TestImagesThatEC2Refuses(t *testing.T) {
	w := New(t).Prompt("one call is one case")
	w.Snapshots = []*Snapshot{
		{Region: Region, ID: "snap-0123456789abcdef0", State: "completed", Owner: Account, Size: 8},
		{Region: Region, ID: "snap-01111111111111111", State: "pending", Owner: Account, Size: 8},
		{Region: Region, ID: "snap-02222222222222222", State: "completed", Owner: "210987654321", Size: 8},
	}
	c := client(w)
	for _, rule := range rules().Calls["RegisterImage"] {
		assert.NotEmpty(t, rule.From, rule.Says)
		assert.NotEmpty(t, rule.Samples, rule.Says)
		for _, sample := range rule.Samples {
			n := node()
			changed := struct {
				*ec2.RegisterImageInput
				Ebs *types.EbsBlockDevice
			}{n, n.BlockDeviceMappings[0].Ebs}
			require.NoError(t, endpoint.Change(&changed, sample))
			_, err := c.RegisterImage(t.Context(), n)
			assert.Equal(t, rule.Code, code(err), "%s", sample)
			if rule.When != "" {
				assert.ErrorContains(t, err, rule.Says, "%s", sample)
			}
			assert.Empty(t, w.Images, "%s", sample)
		}
	}
}

func TestMain(m *testing.M) { os.Exit(Alone(m.Run)) }

func call(t *testing.T, w *World, action string, parameters ...string) (int, string) {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {calls()["ec2"].Version}}
	for pair := range slices.Chunk(parameters, 2) {
		form.Set(pair[0], pair[1])
	}
	in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(form.Encode()))
	in.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+AccessKey+"/20260102/"+Region+"/ec2/aws4_request, SignedHeaders=host, Signature=0")
	in.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	w.ServeHTTP(out, in)
	return out.Code, out.Body.String()
}

// A call that moto would ignore or permit fails the test.
func TestCallsThatMotoWouldIgnoreFail(t *testing.T) {
	w := Sample(t).Prompt("one call is one case")
	w.MayRefuse()
	for _, c := range []struct {
		want       string
		action     string
		parameters []string
	}{
		{"the double does not understand the action DescribeHosts of ec2", "DescribeHosts", nil},
		{"the double does not understand the parameter DryRun of DescribeSubnets", "DescribeSubnets", []string{"DryRun", "true"}},
		{"the double does not understand the parameter Monitoring of RunInstances", "RunInstances", []string{"ImageId", NodeImage, "MinCount", "1", "MaxCount", "1", "Monitoring.Enabled", "true"}},
		{"moto crashed", "DescribeLaunchTemplateVersions", []string{"LaunchTemplateName", "nodes", "LaunchTemplateVersion.1", "9"}},
		{"the filter &#34;hypervisor&#34;", "DescribeImages", []string{"Filter.1.Name", "hypervisor", "Filter.1.Value.1", "xen"}},
		{"InvalidAMIID.NotFound", "RunInstances", []string{"ImageId", "ami-00000000", "MinCount", "1", "MaxCount", "1"}},
		{"InvalidParameterValue", "RunInstances", []string{"ImageId", NodeImage, "MinCount", "0", "MaxCount", "0"}},
		{"the device /dev/xvdb: a machine has only the disk of its image", "RunInstances", []string{"ImageId", NodeImage, "MinCount", "1", "MaxCount", "1", "BlockDeviceMapping.1.DeviceName", "/dev/xvdb"}},
		{"an image of an instance in state running", "CreateImage", []string{"InstanceId", "i-1", "Name", "x"}},
		{"InvalidSnapshot.InUse", "DeleteSnapshot", []string{"SnapshotId", "snap-1"}},
		{"AuthFailure", "DeregisterImage", []string{"ImageId", Debian}},
		{"AuthFailure", "ModifyImageAttribute", []string{"ImageId", Debian, "Description.Value", "mine"}},
		{"InvalidAMIName.Duplicate", "CopyImage", []string{"Name", "node-1.34", "SourceImageId", NodeImage, "SourceRegion", Region}},
		{"InvalidParameterDependency", "CopyImage", []string{"Name", "x", "SourceImageId", NodeImage, "SourceRegion", Region, "KmsKeyId", "alias/x"}},
		{"InvalidParameterValue", "CopyImage", []string{"Name", "x", "SourceImageId", NodeImage, "SourceRegion", Region, "Encrypted", "true", "KmsKeyId", "arn:aws:kms:us-east-1:123456789012:alias/x"}},
	} {
		status, said := call(t, w, c.action, c.parameters...)
		assert.Equal(t, http.StatusBadRequest, status, "%s %s", c.action, said)
		assert.Contains(t, said, c.want, c.action)
	}
	assert.NotNil(t, w.Image(NodeImage), "the refused calls changed something")
}

// TestOtherClientsOfEBS uses the double with the AWS CLI and with botocore, whose
// requests are not those of the SDK for Go: an upload, a list with pages, a read of each
// block, a child, a comparison, and calls that fail.
func TestOtherClientsOfEBS(t *testing.T) {
	w := New(t)
	w.Folder = t.TempDir()
	d := w.ServeEBS()
	d.EmptyPages, d.Quotas = true, ebsdirect.Quotas{}
	out, err := w.Shell(`
head -c 524288 /dev/zero | tr '\0' a > a
sum=$(openssl dgst -sha256 -binary a | base64)
id=$(aws ebs start-snapshot --volume-size 1 --timeout 10 --tags Key=k,Value=v --query SnapshotId --output text)
aws ebs put-snapshot-block --snapshot-id $id --block-index 3 --block-data a --data-length 524288 --checksum "$sum" --checksum-algorithm SHA256 --progress 50
all=$(openssl dgst -sha256 -binary a | openssl dgst -sha256 -binary | base64)
aws ebs complete-snapshot --snapshot-id $id --changed-blocks-count 1 --checksum "$all" --checksum-algorithm SHA256 --checksum-aggregation-method LINEAR
token=$(aws ebs list-snapshot-blocks --snapshot-id $id --query 'Blocks[0].BlockToken' --output text)
aws ebs get-snapshot-block --snapshot-id $id --block-index 3 --block-token "$token" b
cmp a b
! aws ebs put-snapshot-block --snapshot-id $id --block-index 0 --block-data a --data-length 524288 --checksum "$sum" --checksum-algorithm SHA256
echo $id > id
python3 client.py
`, map[string]string{"client.py": `
import base64, hashlib
import botocore.session
from botocore.exceptions import ClientError

ebs = botocore.session.get_session().create_client("ebs", region_name="eu-west-1")
parent = open("id").read().strip()
child = ebs.start_snapshot(VolumeSize=1, ParentSnapshotId=parent)["SnapshotId"]
sums = {}
for index in range(150):
    block = bytes([index]) * 524288
    sums[index] = hashlib.sha256(block).digest()
    ebs.put_snapshot_block(SnapshotId=child, BlockIndex=index, BlockData=block, DataLength=524288,
                           Checksum=base64.b64encode(sums[index]).decode(), ChecksumAlgorithm="SHA256")
linear = hashlib.sha256(b"".join(sums[i] for i in sorted(sums))).digest()
ebs.complete_snapshot(SnapshotId=child, ChangedBlocksCount=150, Checksum=base64.b64encode(linear).decode(),
                      ChecksumAlgorithm="SHA256", ChecksumAggregationMethod="LINEAR")

def pages(call, name, **more):
    token, found = None, []
    while True:
        page = call(MaxResults=100, **more, **({"NextToken": token} if token else {}))
        found += page[name]
        token = page.get("NextToken")
        if not token:
            return found

blocks = pages(ebs.list_snapshot_blocks, "Blocks", SnapshotId=child)
assert [b["BlockIndex"] for b in blocks] == list(range(150)), blocks
for b in blocks:
    got = ebs.get_snapshot_block(SnapshotId=child, BlockIndex=b["BlockIndex"], BlockToken=b["BlockToken"])
    data = got["BlockData"].read()
    assert hashlib.sha256(data).digest() == sums[b["BlockIndex"]] == base64.b64decode(got["Checksum"])
changed = pages(ebs.list_changed_blocks, "ChangedBlocks", FirstSnapshotId=parent, SecondSnapshotId=child)
assert len(changed) == 150 and [b["BlockIndex"] for b in changed if "FirstBlockToken" in b] == [3], changed
for code, status, reason, call in [
    ("ValidationException", 400, "INVALID_BLOCK_TOKEN", lambda: ebs.get_snapshot_block(SnapshotId=child, BlockIndex=0, BlockToken="AAAA")),
    ("ValidationException", 400, "INVALID_SNAPSHOT_ID", lambda: ebs.complete_snapshot(SnapshotId=child, ChangedBlocksCount=150)),
    ("ResourceNotFoundException", 404, "SNAPSHOT_NOT_FOUND", lambda: ebs.list_snapshot_blocks(SnapshotId="snap-0123456789abcdef0")),
]:
    try:
        call()
        raise SystemExit(code + " is missing")
    except ClientError as e:
        assert e.response["Error"]["Code"] == code and e.response["Reason"] == reason, e.response
        assert e.response["ResponseMetadata"]["HTTPStatusCode"] == status, e.response
print("child", child)
`})
	require.NoError(t, err)
	require.Contains(t, out, "An error occurred (ValidationException) when calling the PutSnapshotBlock operation")
	ids := d.IDs()
	require.Len(t, ids, 2)
	require.Equal(t, []ebsdirect.Tag{{Key: "k", Value: "v"}}, d.Find(ids[0]).Tags)
	require.Equal(t, sha256.Sum256(bytes.Repeat([]byte{149}, ebsdirect.BlockSize)), d.Blocks(ids[1])[149])
}
