package preflight

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/cli"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// Checks and remedies differ between launch templates and instances in these cases.
func TestChecksOfLaunchTemplates(t *testing.T) {
	public, private := true, false
	for name, c := range map[string]struct {
		change                           func(*facts)
		check, verdict, evidence, remedy string
	}{
		"another tag": {func(f *facts) {
			f.launch.value.Tags = map[string]string{"team": "a"}
			f.launch.value.AllTags = []awsapi.Tagging{{Kind: "volume", Tags: map[string]string{"team": "o'brien"}}, {Kind: "instance", Tags: f.launch.value.Tags}}
		}, "cluster-tag", "WARN", "the launch template nodes has no tag kubernetes.io/cluster/my-cluster=owned; the Auto Scaling group may add the tag",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"TagSpecifications":[{"ResourceType":"volume","Tags":[{"Key":"team","Value":"o'\''brien"}]},` +
				`{"ResourceType":"instance","Tags":[{"Key":"kubernetes.io/cluster/my-cluster","Value":"owned"},{"Key":"team","Value":"a"}]}]}'`},
		"no profile": {func(f *facts) { f.launch.value.Profile, f.profile.value = "", awsapi.Profile{} }, "instance-profile", "FAIL", "the launch template nodes has no instance profile: right for a managed node group (check it with --nodegroup), but self-managed nodes get no credentials; --role names the role",
			`aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 1 --launch-template-data '{"IamInstanceProfile":{"Name":"PROFILE"}}'`},
		"no image":    {func(f *facts) { f.launch.value.Image, f.image = "", fact[awsapi.Image]{absent: true} }, "image-state", "FAIL", "the launch template nodes names no image", `'{"ImageId":"AMI"}'`},
		"no type":     {func(f *facts) { f.launch.value.Type, f.architectures = "", fact[[]string]{absent: true} }, "image-architecture", "WARN", "the launch template nodes names no instance type", "aws ec2 describe-instance-types"},
		"no groups":   {func(f *facts) { f.launch.value.SecurityGroups, f.nodeGroups.value = nil, nil }, "security-group-443", "WARN", "its instances get the VPC's default group", `'{"SecurityGroupIds":["sg-cluster"]}'`},
		"no metadata": {func(f *facts) { f.launch.value.NoMetadata, f.launch.value.Metadata["HttpEndpoint"] = true, "disabled" }, "metadata", "FAIL", "the metadata service is off in the launch template nodes", `'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"required"}}'`},
		"other metadata options": {func(f *facts) {
			f.launch.value.NoMetadata, f.launch.value.Tokens = true, "optional"
			f.launch.value.Metadata = map[string]any{"HttpEndpoint": "disabled", "InstanceMetadataTags": "enabled", "HttpTokens": "optional"}
		}, "metadata", "FAIL", "the metadata service is off in the launch template nodes",
			`'{"MetadataOptions":{"HttpEndpoint":"enabled","HttpPutResponseHopLimit":2,"HttpTokens":"optional","InstanceMetadataTags":"enabled"}}'`},
		"a public address": {func(f *facts) {
			for i := range f.subnets.value {
				f.subnets.value[i].Routes = over("igw-1")
			}
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &public, []map[string]any{{"AssociatePublicIpAddress": true, "DeviceIndex": 0, "Groups": []string{"sg-cluster"}}}
		}, "egress", "OK", "subnet-1 over igw-1, subnet-2 over igw-1", ""},
		"no public address": {func(f *facts) {
			nodeSubnet(f).PublicAddresses, nodeSubnet(f).Routes = true, over("igw-1")
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &private, []map[string]any{{"AssociatePublicIpAddress": false, "DeviceIndex": 0.0, "Groups": []any{"sg-cluster"}}}
		}, "egress", "FAIL", "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"]}]}'`},
		"no public address, two interfaces": {func(f *facts) {
			nodeSubnet(f).PublicAddresses, nodeSubnet(f).Routes = true, over("igw-1")
			f.launch.value.PublicAddress, f.launch.value.Interfaces = &private, []map[string]any{
				{"AssociatePublicIpAddress": false, "DeviceIndex": 0.0, "Groups": []any{"sg-cluster"}, "SubnetId": "subnet-1"},
				{"DeviceIndex": 1.0, "InterfaceType": "efa", "Groups": []any{"sg-node"}},
			}
		}, "egress", "FAIL", "its instances get no public address", `'{"NetworkInterfaces":[{"AssociatePublicIpAddress":true,"DeviceIndex":0,"Groups":["sg-cluster"],"SubnetId":"subnet-1"},` +
			`{"DeviceIndex":1,"Groups":["sg-node"],"InterfaceType":"efa"}]}'`},
		"the subnet's address": {func(f *facts) {
			nodeSubnet(f).Routes = over("igw-1")
		}, "egress", "FAIL",
			"its instances get no public address", "aws ec2 modify-subnet-attribute --map-public-ip-on-launch --subnet-id subnet-1"},
	} {
		t.Run(name, func(t *testing.T) {
			f := templated()
			c.change(f)
			said := found(t, f, c.check)
			assert.Equal(t, c.verdict, string(said.Verdict))
			assert.Contains(t, said.Evidence, c.evidence)
			assert.Contains(t, said.Remedy, c.remedy)
			if c.remedy != "" {
				assert.NoError(t, cli.Check(said.Remedy))
			}
		})
	}
}
