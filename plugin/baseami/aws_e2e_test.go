//go:build e2e && linux

package baseami

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// TestMain runs all tests in a network namespace with only loopback.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

func TestExecuteFindsTheImage(t *testing.T) {
	for name, c := range map[string]struct {
		block map[string]any
		want  string // an AMI ID, or part of an error
	}{
		"by the publisher's parameter":     {map[string]any{"distro": "debian", "version": "12"}, "ami-22222222"},
		"by name":                          {map[string]any{"distro": "debian", "version": "12", "parameter": "none"}, "ami-22222222"},
		"another name":                     {map[string]any{"distro": "debian", "name": "debian-12-amd64-202601*"}, "ami-11111111"},
		"another parameter":                {map[string]any{"distro": "amazonlinux2023", "architecture": "arm64", "parameter": "/aws/service/al2023"}, "ami-33333333"},
		"another owner":                    {map[string]any{"distro": "debian", "version": "12", "owners": []string{"self"}, "name": "debian-*"}, "searching for images debian-* of self: there is no image for x86_64 in eu-west-1"},
		"another distribution's parameter": {map[string]any{"distro": "amazonlinux2023", "parameter": "/aws/service/debian/release/12/latest/amd64"}, "the owner is 136693071363, not 137112412989"},
	} {
		t.Run(name, func(t *testing.T) {
			aws.Sample(t).Serve()
			var d Datasource
			require.NoError(t, d.Configure(c.block))
			value, err := d.Execute()
			if err != nil {
				assert.ErrorContains(t, err, c.want)
				return
			}
			told := map[string]string{}
			for name, v := range value.AsValueMap() {
				told[name] = v.AsString()
			}
			assert.Equal(t, c.want, told["id"])
			if name == "by the publisher's parameter" {
				assert.Equal(t, map[string]string{
					"id": "ami-22222222", "name": "debian-12-amd64-20260301-1", "owner": "136693071363",
					"creation_date": "2026-03-01T00:00:00Z", "architecture": "amd64", "root_device": "/dev/xvda",
					"ssh_username": "admin",
				}, told)
			}
		})
	}
}

// The error names the missing permission.
func TestExecuteNamesTheMissingPermission(t *testing.T) {
	for action, doing := range map[string]string{
		"ssm:GetParameter": "reading the parameter ", "ec2:DescribeImages": "describing the image ",
	} {
		w := aws.Sample(t)
		w.Serve()
		w.Deny(action)
		var d Datasource
		require.NoError(t, d.Configure(map[string]any{"distro": "debian", "version": "12"}))
		_, err := d.Execute()
		require.ErrorContains(t, err, doing)
		require.ErrorContains(t, err, "the permission "+action+" is missing: User: arn:aws:iam::")
	}
}
