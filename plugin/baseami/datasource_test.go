//go:build linux

package baseami

import (
	"os"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

var _ packersdk.Datasource = new(Datasource)

// All tests run where nothing but loopback can be reached.
func TestMain(m *testing.M) { os.Exit(aws.Alone(m.Run)) }

func TestExecute(t *testing.T) {
	for name, c := range map[string]struct {
		block map[string]any
		want  string // an id, or a part of an error
	}{
		"by the publisher's parameter": {map[string]any{"distro": "debian", "version": "12"}, "ami-22222222"},
		"by name":                      {map[string]any{"distro": "debian", "version": "12", "parameter": "none"}, "ami-22222222"},
		"another name":                 {map[string]any{"distro": "debian", "name": "debian-12-amd64-202601*"}, "ami-11111111"},
		"another parameter":            {map[string]any{"distro": "amazonlinux2023", "architecture": "arm64", "parameter": "/aws/service/al2023"}, "ami-33333333"},
		"another owner":                {map[string]any{"distro": "debian", "version": "12", "owners": []string{"self"}, "name": "debian-*"}, "looking for images debian-* of self: there is none for x86_64 in eu-west-1"},
		"a parameter of another's":     {map[string]any{"distro": "amazonlinux2023", "parameter": "/aws/service/debian/release/12/latest/amd64"}, "its owner is 136693071363, not 137112412989"},
	} {
		t.Run(name, func(t *testing.T) {
			aws.Sample().Serve(t)
			var d Datasource
			require.NoError(t, d.Configure(c.block))
			value, err := d.Execute()
			if err != nil {
				assert.ErrorContains(t, err, c.want)
				return
			}
			assert.Equal(t, c.want, value.AsValueMap()["id"].AsString())
			assert.Len(t, value.AsValueMap(), len(d.OutputSpec()))
		})
	}
}

func TestOutput(t *testing.T) {
	aws.Sample().Serve(t)
	var d Datasource
	require.NoError(t, d.Configure(map[string]any{"distro": "debian", "version": "12"}))
	value, err := d.Execute()
	require.NoError(t, err)
	told := map[string]string{}
	for name, v := range value.AsValueMap() {
		told[name] = v.AsString()
	}
	assert.Equal(t, map[string]string{
		"id": "ami-22222222", "name": "debian-12-amd64-20260301-1", "owner": "136693071363", "creation_date": "2026-03-01T00:00:00Z",
		"architecture": "amd64", "root_device": "/dev/xvda", "ssh_username": "admin",
	}, told)
}

// Whoever lacks a permission is told which.
func TestExecuteDenied(t *testing.T) {
	for action, doing := range map[string]string{
		"ssm:GetParameter": "reading the parameter ", "ec2:DescribeImages": "describing the image ",
	} {
		w := aws.Sample()
		w.Serve(t)
		w.Deny(action)
		var d Datasource
		require.NoError(t, d.Configure(map[string]any{"distro": "debian", "version": "12"}))
		_, err := d.Execute()
		require.ErrorContains(t, err, doing)
		require.ErrorContains(t, err, "the permission "+action+" is missing: User: arn:aws:iam::")
	}
}

func TestConfigureRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		block map[string]any
		want  string
	}{
		"distro":       {map[string]any{"distro": "slackware"}, `distro "slackware" is not known`},
		"version":      {map[string]any{"distro": "debian", "version": "7"}, `7`},
		"architecture": {map[string]any{"distro": "debian", "architecture": "riscv64"}, `architecture: "riscv64" is not known; known are amd64, arm64`},
		"both":         {map[string]any{"distro": "debian", "name": "a", "parameter": "b"}, "name and parameter: name one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			var d Datasource
			require.ErrorContains(t, d.Configure(c.block), c.want)
		})
	}
	var d Datasource
	require.NoError(t, d.Configure(map[string]any{"distro": "<unknown>"}))
}

// Every distribution that can be provisioned is found somehow, in China too.
func TestEveryDistributionIsLookedFor(t *testing.T) {
	for _, distro := range distros.All() {
		c := Config{Distro: distro.ID, Architecture: "amd64"}
		for _, region := range []string{"eu-west-1", "cn-north-1"} {
			s, user, err := c.search(region)
			require.NoError(t, err, distro.ID)
			assert.NotEmpty(t, s.Name, distro.ID)
			assert.NotEmpty(t, user, distro.ID)
			require.Len(t, s.Owners, 1)
			assert.NotEmpty(t, s.Owners[0], distro.ID)
		}
	}
}
