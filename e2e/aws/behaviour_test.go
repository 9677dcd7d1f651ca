//go:build linux

package aws_test

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// light returns a light world, and its account in the first region.
func light(t *testing.T, b aws.Behaviour) (*aws.World, *awsapi.AWS) {
	t.Helper()
	endpoint.Environment(t, nil)
	w := aws.Light(t, t.TempDir())
	w.Behave(b)
	return w, open(t, w.Client(nil))
}

func open(t *testing.T, client *http.Client) *awsapi.AWS {
	t.Helper()
	a, err := awsapi.Open(t.Context(), awsapi.Options{Region: aws.Region, HTTP: client, Settle: 1, Pause: 1})
	require.NoError(t, err)
	return a
}

// uploaded makes a completed snapshot with one block.
func uploaded(t *testing.T, a *awsapi.AWS) string {
	t.Helper()
	id, err := a.StartSnapshot(t.Context(), awsapi.NewSnapshot{Token: "token", Size: 1, Timeout: time.Hour})
	require.NoError(t, err)
	block := make([]byte, awsapi.BlockSize)
	sum := sha256.Sum256(block)
	require.NoError(t, a.PutBlock(t.Context(), id, 0, block, sum, time.Now()))
	require.NoError(t, a.CompleteSnapshot(t.Context(), id, 1, sha256.Sum256(sum[:])))
	_, err = a.AwaitSnapshot(t.Context(), id)
	require.NoError(t, err)
	return id
}

func registered(t *testing.T, a *awsapi.AWS, id string) awsapi.Image {
	t.Helper()
	root := types.BlockDeviceMapping{DeviceName: new("/dev/xvda"), Ebs: &types.EbsBlockDevice{SnapshotId: &id}}
	i, err := a.Register(t.Context(), awsapi.NewImage{
		Name: new("node"), Architecture: "x86_64", BootMode: "uefi", RootDeviceName: root.DeviceName,
		BlockDeviceMappings: []types.BlockDeviceMapping{root},
	})
	require.NoError(t, err)
	return i
}

func TestFaultsHappenToOneCall(t *testing.T) {
	const call = "ec2:DeregisterImage eu-west-1 #1"
	for fault, want := range map[aws.Fault]struct {
		done  bool
		calls int
		says  string
	}{
		aws.Refused: {false, 1, "the permission ec2:DeregisterImage is missing"}, aws.Crowded: {true, 2, ""}, aws.Reset: {true, 2, ""}, aws.Lost: {true, 4, "InvalidAMIID.NotFound"},
		aws.Unsure: {true, 4, "InvalidAMIID.NotFound"}, aws.Twice: {true, 3, "InvalidAMIID.NotFound"}, aws.KilledBefore: {false, 1, "the connection broke"},
		aws.KilledAfter: {true, 1, "the connection broke"},
	} {
		w, a := light(t, aws.Behaviour{})
		i := registered(t, a, uploaded(t, a))
		w.Behave(aws.Behaviour{Faults: map[string]aws.Fault{call: fault}})
		err := a.Deregister(t.Context(), i.ID)
		if want.says == "" {
			assert.NoError(t, err, fault)
		} else {
			assert.ErrorContains(t, err, want.says, fault)
		}
		assert.Equal(t, want.done, w.Image("node") == nil, fault)
		assert.Equal(t, want.calls, strings.Count(strings.Join(w.Trace(), "\n"), "ec2:DeregisterImage"), fault)
	}
}

// A broken action is not another one that is called at the same time.
func TestOnlyTheBrokenActionIsTruncated(t *testing.T) {
	w := aws.Light(t, t.TempDir()).Prompt("only the truncation counts")
	w.Break("ec2:DescribeVpcs")
	var all sync.WaitGroup
	for _, action := range []string{"DescribeVpcs", "DescribeSubnets", "DescribeVpcs", "DescribeSubnets"} {
		all.Go(func() {
			for range 1000 {
				in := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("Version=2016-11-15&Action="+action))
				in.Header.Set("Authorization",
					"AWS4-HMAC-SHA256 Credential="+aws.AccessKey+"/20260102/eu-west-1/ec2/aws4_request,")
				out := httptest.NewRecorder()
				w.ServeHTTP(out, in)
				whole := strings.HasSuffix(out.Body.String(), "</"+action+"Response>")
				if !assert.Equal(t, action == "DescribeSubnets", whole, "%s: %s", action, out.Body) {
					return
				}
			}
		})
	}
	all.Wait()
}
