//go:build packer && linux

package main_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// packer reads the cluster and base AMI from AWS doubles through the plugin's data
// sources.
func TestDataSourcesInABuild(t *testing.T) {
	plugin := buildPlugin(t, "0.1.0", "")
	eachPacker(t, func(t *testing.T, d *workstation) {
		d.install(plugin)
		url := aws.Sample(t).Serve()
		d.template(`data "eksnode-cluster" "this" {
  name = "my-cluster"
}
data "eksnode-base-ami" "base" {
  distro  = "debian"
  version = "12"
}
locals {
  kubelet = { "1.34" = "1.34.4" }[data.eksnode-cluster.this.version]
}
source "null" "x" { communicator = "none" }
build {
  sources = ["null.x"]
  provisioner "shell-local" {
    inline = ["echo kubelet ${local.kubelet} on ${data.eksnode-base-ami.base.id} in ${data.eksnode-cluster.this.subnet_ids[0]}"]
  }
}`)
		build := func() (string, error) {
			cmd := d.command("build", ".")
			cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL="+url, "AWS_REGION="+aws.Region, "AWS_ACCESS_KEY_ID="+aws.AccessKey, "AWS_SECRET_ACCESS_KEY=x", "AWS_EC2_METADATA_DISABLED=true")
			said, err := cmd.CombinedOutput()
			return flat(string(said)), err
		}
		said, err := d.offline("validate", ".")
		require.NoError(t, err, said)
		said, err = build()
		require.NoError(t, err, said)
		assert.Contains(t, said, "kubelet 1.34.4 on ami-22222222 in subnet-1")
	})
}
