//go:build e2e

package ebs_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/lifecycle"
)

// TestBuildUsesVersionAndNetworkOfCluster builds the image for a cluster from
// the cluster's name alone: version and network come from EKS, the base image
// from its publisher's parameter.
func TestBuildUsesVersionAndNetworkOfCluster(t *testing.T) {
	c := newCloud(t, mirror.Options{})
	var subnets struct {
		Subnets []struct {
			ID  string `xml:"subnetId"`
			VPC string `xml:"vpcId"`
		} `xml:"subnetSet>item"`
	}
	c.call("DescribeSubnets", &subnets)
	subnet := subnets.Subnets[len(subnets.Subnets)-1]
	c.Do("eks:POST /clusters", `{"name":"my-cluster","version":"1.36","roleArn":"arn:aws:iam::`+aws.Account+`:role/cluster","resourcesVpcConfig":{"subnetIds":["`+subnet.ID+`"]},
		"kubernetesNetworkConfig":{"serviceIpv4Cidr":"10.100.0.0/16"}}`)
	c.Clusters["my-cluster"] = map[string]any{"resourcesVpcConfig": map[string]any{"vpcId": subnet.VPC, "clusterSecurityGroupId": "sg-cluster"}}
	var found struct {
		Images []aws.Image `xml:"imagesSet>item"`
	}
	c.call("DescribeImages", &found, "Owner.1", debian, "Filter.1.Name", "name", "Filter.1.Value.1", names["debian13"])
	require.Len(t, found.Images, 1)
	c.Published["/aws/service/debian/release/13/latest/amd64"] = found.Images[0].ID

	d := newWorkstation(t, c, build(t))
	template, err := filepath.Abs(repository + "/examples/cluster")
	require.NoError(t, err)
	out, err := d.offer("build", "-var", "cluster=my-cluster", "-var", "ssh_interface=private_ip", "-var", "source_url="+c.mirror.URL(), "-var", "allow_http=true", template)
	require.NoError(t, err, out)

	found.Images = nil
	c.call("DescribeImages", &found, "Owner.1", "self")
	require.Len(t, found.Images, 1)
	image := found.Images[0]
	assert.Regexp(t, `^my-cluster-debian-[0-9]{14}$`, image.Name)
	tags := tagsOf(image.Tags)
	want := map[string]string{
		"eksnode:kubernetes-version": lifecycle.Kubernetes(), "eksnode:distro": "debian", "eksnode:base-image": names["debian13"], "eksnode:architecture": "amd64",
	}
	for _, id := range asset.IDs() {
		want["eksnode:asset:"+id] = lifecycle.Default(id)
	}
	assert.Equal(t, want, tags)
	assert.Contains(t, image.Description, "EKS node, Kubernetes 1.36.3, debian on amd64: cni-plugins ")
	assert.Equal(t, aws.Parameter{Value: image.ID, Type: "String", DataType: "aws:ec2:image", Version: 1}, c.Parameter(region, "/eksnode/my-cluster/debian"))
	for _, call := range c.Calls() {
		if call.Action == "RunInstances" {
			assert.Contains(t, call.Body, "SubnetId="+subnet.ID, "the builder machine must be in the cluster's network")
		}
	}
	assert.Empty(t, c.Refusals())
	assert.Zero(t, c.strays(), "a program connected to an address outside the lab")

	// An unknown version is refused, not guessed.
	c.Clusters["my-cluster"]["version"] = "1.99"
	out, err = d.offer("build", "-var", "cluster=my-cluster", template)
	require.Error(t, err)
	assert.Contains(t, flat(out), "1.99")
	assert.Equal(t, 1, c.Count()["ec2:RunInstances"])
}
