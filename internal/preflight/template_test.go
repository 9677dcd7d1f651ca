//go:build linux

package preflight_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/preflight"
)

// What a launch template has that instances have not.
func TestTemplates(t *testing.T) {
	public, private := true, false
	for name, c := range map[string]struct {
		change                           func(*aws.World)
		check, verdict, evidence, remedy string
	}{
		"another tag": {func(w *aws.World) {
			w.Templates[0].Data.Tags = []aws.TagSpecification{
				{Kind: "volume", Tags: []aws.Tag{{Key: "team", Value: "o'brien"}}}, {Kind: "instance", Tags: []aws.Tag{{Key: "team", Value: "a"}}},
			}
		}, "cluster-tag", "WARN", "the launch template nodes has no tag kubernetes.io/cluster/my-cluster=owned; the Auto Scaling group may add it",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"TagSpecifications":[{"ResourceType":"volume","Tags":[{"Key":"team","Value":"o'\''brien"}]},` +
				`{"ResourceType":"instance","Tags":[{"Key":"kubernetes.io/cluster/my-cluster","Value":"owned"},{"Key":"team","Value":"a"}]}]}'`},
		"no profile": {func(w *aws.World) { w.Templates[0].Data.Profile = "" }, "instance-profile", "FAIL", "the launch template nodes has no instance profile",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"IamInstanceProfile":{"Name":"PROFILE"}}'`},
		"no image":    {func(w *aws.World) { w.Templates[0].Data.Image = "" }, "image-state", "FAIL", "the launch template nodes names no image", `'{"ImageId":"AMI"}'`},
		"no type":     {func(w *aws.World) { w.Templates[0].Data.Type = "" }, "image-architecture", "WARN", "the launch template nodes names no instance type", "aws ec2 describe-instance-types"},
		"no groups":   {func(w *aws.World) { w.Templates[0].Data.Groups = nil }, "security-group-443", "WARN", "its instances get the network's default", `'{"SecurityGroupIds":["sg-cluster"]}'`},
		"no metadata": {func(w *aws.World) { w.Templates[0].Data.Metadata = "disabled" }, "metadata", "FAIL", "it is switched off by the launch template nodes", `'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"required"}}'`},
		"other metadata options": {func(w *aws.World) {
			w.Templates[0].Data.Metadata, w.Templates[0].Data.TagsToo, w.Templates[0].Data.Tokens = "disabled", "enabled", "optional"
		}, "metadata", "FAIL", "it is switched off by the launch template nodes",
			`'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"optional","InstanceMetadataTags":"enabled"}}'`},
		"a public address": {func(w *aws.World) {
			w.Routes = []aws.RouteTable{{VPC: "vpc-1", Main: true, Routes: []aws.Route{{To: "0.0.0.0/0", Gateway: "igw-1", State: "active"}}}}
			w.Templates[0].Data.Groups, w.Templates[0].Data.Networks = nil, []aws.NetworkInterface{{Public: &public, Groups: []string{"sg-cluster"}}}
		}, "egress", "OK", "subnet-1 over igw-1, subnet-2 over igw-1", ""},
		"no public address": {func(w *aws.World) {
			w.Subnets[0].Public = true
			w.Routes[0].Routes[1] = aws.Route{To: "0.0.0.0/0", Gateway: "igw-1", State: "active"}
			w.Templates[0].Data.Groups, w.Templates[0].Data.Networks = nil, []aws.NetworkInterface{{Public: &private, Groups: []string{"sg-cluster"}}}
		}, "egress", "FAIL", "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"]}]}'`},
		"no public address, two interfaces": {func(w *aws.World) {
			w.Subnets[0].Public = true
			w.Routes[0].Routes[1] = aws.Route{To: "0.0.0.0/0", Gateway: "igw-1", State: "active"}
			w.Templates[0].Data.Groups, w.Templates[0].Data.Networks = nil, []aws.NetworkInterface{
				{Public: &private, Groups: []string{"sg-cluster"}, Subnet: "subnet-1"}, {Index: 1, Kind: "efa", Groups: []string{"sg-node"}},
			}
		}, "egress", "FAIL", "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"],"SubnetId":"subnet-1"},` +
			`{"DeviceIndex":1,"Groups":["sg-node"],"InterfaceType":"efa"}]}'`},
		"the subnet's address": {func(w *aws.World) {
			w.Routes[0].Routes[1] = aws.Route{To: "0.0.0.0/0", Gateway: "igw-1", State: "active"}
		}, "egress", "FAIL",
			"its instances get no public address", "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id subnet-1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := aws.Sample()
			c.change(w)
			r := run(t, w, template)
			f := r.Findings[slices.IndexFunc(r.Findings, func(f preflight.Finding) bool { return f.Check == c.check })]
			assert.Equal(t, c.verdict, string(f.Verdict))
			assert.Contains(t, f.Evidence, c.evidence)
			assert.Contains(t, f.Remedy, c.remedy)
			if c.remedy != "" {
				assert.NoError(t, cli.Check(f.Remedy))
			}
		})
	}
}
