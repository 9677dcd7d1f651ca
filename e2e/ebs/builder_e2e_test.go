//go:build e2e

package ebs_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const baseImage = "ami-00000001"

// newBuilder returns the real amazon-ebs builder without machines and without a
// login.
func newBuilder(t *testing.T) *workstation {
	t.Helper()
	all := installed(t, "")
	c := newAPI(t, lab.Open(t, limit, machine.Nspawn))
	c.Images, c.Published["/aws/base"] = baseImages(""), baseImage
	return newWorkstation(t, c, all)
}

// build builds an image with settings of testdata/builder.txtar, without a login.
func (d *workstation) build(name string) (string, error) {
	d.t.Helper()
	all, err := txtar.ParseFile("testdata/builder.txtar")
	require.NoError(d.t, err)
	files := map[string]string{}
	for _, f := range all.Files {
		files[f.Name] = string(f.Data)
	}
	text := files[name+".head.pkr.hcl"] +
		strings.Replace(files["source.pkr.hcl"], "{settings}\n", files[name+".pkr.hcl"], 1)
	template := filepath.Join(d.home, "image.pkr.hcl")
	require.NoError(d.t, os.WriteFile(template, []byte(text), 0o600))
	return d.offer("build", template)
}

// TestBuilderWithSettingsBeyondExample makes the calls that the example does
// not need.
func TestBuilderWithSettingsBeyondExample(t *testing.T) {
	for name, test := range map[string]struct {
		want  []string // actions
		check func(*testing.T, *workstation, aws.Image)
	}{
		"encrypted": {
			[]string{"CopyImage", "DeregisterImage", "DeleteSnapshot"},
			func(t *testing.T, d *workstation, image aws.Image) {
				assert.True(t, image.Devices[0].Encrypted)
				copies := d.mine(abroad)
				require.Len(t, copies, 1)
				assert.Equal(t, []aws.Tag{{Key: "team", Value: "nodes"}}, copies[0].Tags)
				assert.Len(t, d.Inventory(region, abroad), 4, "two images with their snapshots, without the temporary one")
			},
		},
		"shared": {
			[]string{
				"DescribeVpcs", "DescribeSubnets", "ModifyInstanceAttribute", "ModifyImageAttribute",
				"ModifySnapshotAttribute", "EnableImageDeprecation",
			},
			func(t *testing.T, d *workstation, image aws.Image) {
				assert.Equal(t, "2030-01-01T00:00:00Z", image.Deprecated)
				for _, call := range d.Calls() {
					if call.Action == "RunInstances" {
						assert.Contains(t, call.Body, "UserData="+strings.TrimRight(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh")), "="))
					}
				}
				assert.Equal(t, []aws.Share{{Account: "210987654321"}}, image.Shares)
			},
		},
		"found": {
			[]string{"GetParameter"},
			func(t *testing.T, _ *workstation, image aws.Image) { assert.Equal(t, baseImage, image.Description) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newBuilder(t)
			out, err := d.build(name)
			require.NoError(t, err, out)
			assert.Empty(t, d.Refusals())
			images := d.mine(region)
			require.Len(t, images, 1, out)
			assert.Equal(t, "node", images[0].Name)
			test.check(t, d, *images[0])
			for _, action := range test.want {
				count := d.Count()
				assert.NotZero(t, count["ec2:"+action]+count["ssm:"+action], "%s was not called: %v", action, count)
			}
			for _, line := range d.Inventory(region, abroad) {
				assert.Regexp(t, `^(image|snapshot) `, line)
			}
		})
	}
}

// TestBuilderCleansUpAfterRefusedCall makes the double refuse a call after the image
// exists.
func TestBuilderCleansUpAfterRefusedCall(t *testing.T) {
	d := newBuilder(t)
	d.MayRefuse()
	out, err := d.build("refused")
	require.Error(t, err)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "the double does not understand the parameter ProductCode")
	count := d.Count()
	for _, action := range []string{"CreateImage", "DeregisterImage", "DeleteSnapshot", "TerminateInstances", "DeleteKeyPair", "DeleteSecurityGroup"} {
		assert.Equal(t, 1, count["ec2:"+action], action)
	}
	assert.Empty(t, d.Inventory(region, abroad))
	assert.Empty(t, testkit.Names(t, d.Folder))
}

// TestBuilderReplacesImageOfSameName builds the same image twice.
func TestBuilderReplacesImageOfSameName(t *testing.T) {
	d := newBuilder(t)
	for range 2 {
		out, err := d.build("replaced")
		require.NoError(t, err, out)
	}
	assert.Empty(t, d.Refusals())
	assert.Len(t, d.Inventory(region, abroad), 2, "one image and its snapshot")
	assert.Equal(t, 1, d.Count()["ec2:DeregisterImage"])
}

// mine returns the account's images in a region.
func (d *workstation) mine(in string) []*aws.Image {
	var own []*aws.Image
	for _, i := range d.Images {
		if i.Owner == aws.Account && i.Region == in {
			own = append(own, i)
		}
	}
	return own
}
