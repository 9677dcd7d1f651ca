//go:build e2e && linux

package aws

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMain(m *testing.M) { os.Exit(Alone(m.Run)) }

// call sends an action with form parameters, as a client does.
func call(t *testing.T, w *World, action string, parameters ...string) (int, string) {
	t.Helper()
	form := url.Values{"Action": {action}, "Version": {versions["ec2"]}}
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
