//go:build e2e

package ec2

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/ssm"
	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/sts"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// builder is the real amazon-ebs builder in front of a double.
type builder struct {
	*bench
	lab *machine.Lab
	api *endpoint.Endpoint
	// packer and desk are the program and the folder it works in.
	packer, desk string
}

func newBuilder(t *testing.T) *builder {
	t.Helper()
	require.NoError(t, base.Install(t.Context(), t.Output(), machine.Packages()...))
	lab, err := machine.NewLab(t.Context(), machine.LabConfig{Folder: t.TempDir(), Log: t.Output()})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, lab.Close()) })
	b := &builder{bench: newBench(t), lab: lab, desk: t.TempDir()}
	b.api = endpoint.New("AKIATEST", b.double.Service(), sts.Service(b.double.Account()), ssm.Service(map[string]string{"/aws/base": baseImage}))
	require.NoError(t, lab.Serve(t.Context(), "127.0.0.1:4566", b.api))
	b.client.URL = "http://127.0.0.1:4566"
	b.client.HTTP = &http.Client{Transport: &http.Transport{DialContext: lab.Dial}}

	b.packer, err = tools.Packer(t.Context(), "", t.Output())
	require.NoError(t, err)
	plugin, err := tools.PackerAmazon(t.Context(), "", t.Output())
	require.NoError(t, err)
	out, err := b.run("plugins", "install", "--path", plugin, "github.com/hashicorp/amazon")
	require.NoError(t, err, out)
	return b
}

func (b *builder) run(args ...string) (string, error) {
	command := b.lab.Command(b.Context(), b.packer, args...)
	command.Dir = b.desk
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + b.desk, "TMPDIR=" + b.desk, "CHECKPOINT_DISABLE=1", "PACKER_NO_COLOR=1",
		"PACKER_CONFIG_DIR=" + b.desk, "PACKER_PLUGIN_PATH=" + filepath.Join(b.desk, "plugins"),
		"AWS_ENDPOINT_URL=" + b.client.URL, "AWS_ACCESS_KEY_ID=AKIATEST", "AWS_SECRET_ACCESS_KEY=secret",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_POLL_DELAY_SECONDS=1",
	}
	out, err := command.CombinedOutput()
	return string(out), err
}

// build builds an image with more settings, where nobody needs to log in.
func (b *builder) build(head, settings string) (string, error) {
	b.Helper()
	template := filepath.Join(b.desk, "image.pkr.hcl")
	require.NoError(b, os.WriteFile(template, []byte(head+`
source "amazon-ebs" "node" {
  region        = "us-east-1"
  ami_name      = "node"
  instance_type = "t3.large"
  communicator  = "none"
`+settings+`
}
build {
  sources = ["amazon-ebs.node"]
}
`), 0o600))
	return b.run("build", template)
}

// TestRealBuilder makes the calls that the example does not need.
func TestRealBuilder(t *testing.T) {
	for name, test := range map[string]struct {
		head, settings string
		want           []string // actions
		check          func(*testing.T, *builder, Image)
	}{
		"encrypted, in two regions": {"", `
  source_ami   = "` + baseImage + `"
  encrypt_boot = true
  ami_regions  = ["eu-west-1"]
  tags         = { team = "nodes" }`,
			[]string{"CopyImage", "DeregisterImage", "DeleteSnapshot"},
			func(t *testing.T, b *builder, image Image) {
				assert.True(t, image.Devices[0].Encrypted)
				copies := b.in(abroad).describe(map[string]string{"Owner.1": "self"})
				require.Len(t, copies, 1)
				assert.Equal(t, []Tag{{"team", "nodes"}}, copies[0].Tags)
				assert.Len(t, b.double.Inventory(), 4, "two images with their snapshots, and not the one in between")
			},
		},
		"shared, deprecated, with ENA, in a chosen subnet": {"", `
  source_ami     = "` + baseImage + `"
  ena_support    = true
  ami_users      = ["210987654321"]
  snapshot_users = ["210987654321"]
  deprecate_at   = "2030-01-01T00:00:00Z"
  user_data      = "#!/bin/sh"
  vpc_filter {
    filters = { is-default = "true" }
  }
  subnet_filter {
    filters = { availability-zone = "us-east-1b" }
  }`,
			[]string{
				"DescribeVpcs", "DescribeSubnets", "ModifyInstanceAttribute", "ModifyImageAttribute",
				"ModifySnapshotAttribute", "EnableImageDeprecation",
			},
			func(t *testing.T, b *builder, image Image) {
				assert.Equal(t, "2030-01-01T00:00:00Z", image.Deprecated)
				assert.Equal(t, "#!/bin/sh", string(b.fakes.launches[0].UserData))
			},
		},
		"found by data sources": {`
data "amazon-parameterstore" "base" {
  name   = "/aws/base"
  region = "us-east-1"
}
data "amazon-ami" "base" {
  region      = "us-east-1"
  owners      = ["` + foreign + `"]
  most_recent = true
  filters     = { name = "al2023-*" }
}`, `
  source_ami      = data.amazon-parameterstore.base.value
  ami_description = data.amazon-ami.base.id`,
			[]string{"GetParameter"},
			func(t *testing.T, _ *builder, image Image) { assert.Equal(t, baseImage, image.Description) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			defer b.close()
			out, err := b.build(test.head, test.settings)
			require.NoError(t, err, out)
			assert.Empty(t, b.api.Refusals())
			images := b.describe(map[string]string{"Owner.1": "self"})
			require.Len(t, images, 1, out)
			assert.Equal(t, "node", images[0].Name)
			test.check(t, b, images[0])
			for _, action := range test.want {
				count := b.api.Count()
				assert.NotZero(t, count["ec2:"+action]+count["ssm:"+action], "%s was not called: %v", action, count)
			}
			for _, line := range b.double.Inventory() {
				assert.Regexp(t, `^(image|snapshot) `, line)
			}
		})
	}
}

// TestRealBuilderCleansUp has the double refuse a call once the image is there.
func TestRealBuilderCleansUp(t *testing.T) {
	b := newBuilder(t)
	defer b.close()
	out, err := b.build("", `
  source_ami        = "`+baseImage+`"
  ami_product_codes = ["code"]`)
	require.Error(t, err)
	assert.Contains(t, strings.Join(strings.Fields(out), " "), "the double does not understand the parameter ProductCode")
	count := b.api.Count()
	for _, action := range []string{"CreateImage", "DeregisterImage", "DeleteSnapshot", "TerminateInstances", "DeleteKeyPair", "DeleteSecurityGroup"} {
		assert.Equal(t, 1, count["ec2:"+action], action)
	}
	assert.Empty(t, b.double.Inventory())
	files, err := os.ReadDir(b.folder)
	require.NoError(t, err)
	assert.Empty(t, files)
}

// TestRealBuilderReplaces builds the same image twice.
func TestRealBuilderReplaces(t *testing.T) {
	b := newBuilder(t)
	defer b.close()
	settings := `
  source_ami            = "` + baseImage + `"
  force_deregister      = true
  force_delete_snapshot = true`
	for range 2 {
		out, err := b.build("", settings)
		require.NoError(t, err, out)
	}
	assert.Empty(t, b.api.Refusals())
	assert.Len(t, b.double.Inventory(), 2, "one image and its snapshot")
	assert.Equal(t, 1, b.api.Count()["ec2:DeregisterImage"])
}
