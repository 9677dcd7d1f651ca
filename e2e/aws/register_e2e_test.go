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
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
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
	var calls []struct {
		Want string
		Call []string
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(testkit.Content(t, "testdata/refused.yaml")), &calls))
	for _, c := range calls {
		status, said := call(t, w, c.Call[0], c.Call[1:]...)
		assert.Equal(t, http.StatusBadRequest, status, "%q %s", c.Call, said)
		assert.Contains(t, said, c.Want, "%q", c.Call)
	}
	assert.NotNil(t, w.Image(NodeImage), "the refused calls changed something")
}

// TestOtherClientsOfEBS uses the double with the AWS CLI and with botocore, whose
// requests are not those of the SDK for Go: an upload, a list with pages, a read of each
// block, a child, a comparison, and calls that fail.
func TestOtherClientsOfEBS(t *testing.T) {
	w := New(t)
	d := w.ServeEBS()
	d.EmptyPages, d.Quotas = true, ebsdirect.Quotas{}
	out, err := w.Shell(testkit.Content(t, "testdata/clients.sh"),
		map[string]string{"client.py": testkit.Content(t, "testdata/client.py")})
	require.NoError(t, err)
	require.Contains(t, out, "An error occurred (ValidationException) when calling the PutSnapshotBlock operation")
	ids := d.IDs()
	require.Len(t, ids, 2)
	require.Equal(t, []ebsdirect.Tag{{Key: "k", Value: "v"}}, d.Find(ids[0]).Tags)
	require.Equal(t, sha256.Sum256(bytes.Repeat([]byte{149}, ebsdirect.BlockSize)), d.Blocks(ids[1])[149])
}
