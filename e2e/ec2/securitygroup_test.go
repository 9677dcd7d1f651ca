package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSecurityGroups(t *testing.T) {
	b := newBench(t)
	defer b.close()
	var made createSecurityGroupOut
	parameters := map[string]string{
		"GroupName": "packer", "GroupDescription": "for a build", "VpcId": "",
		"TagSpecification.1.ResourceType": "security-group", "TagSpecification.1.Tag.1.Key": "k", "TagSpecification.1.Tag.1.Value": "v",
	}
	b.call("CreateSecurityGroup", parameters, &made)
	b.refused("InvalidGroup.Duplicate", "CreateSecurityGroup", parameters)
	b.refused("InvalidVpcID.NotFound", "CreateSecurityGroup", map[string]string{"GroupName": "x", "VpcId": "vpc-0"})
	b.call("AuthorizeSecurityGroupIngress", map[string]string{
		"GroupId": made.ID, "IpPermissions.1.IpProtocol": "tcp", "IpPermissions.1.FromPort": "22", "IpPermissions.1.ToPort": "22",
		"IpPermissions.1.IpRanges.1.CidrIp": "192.0.2.0/24", "IpPermissions.1.IpRanges.2.CidrIp": "198.51.100.0/24",
	}, nil)
	var found describeSecurityGroupsOut
	b.call("DescribeSecurityGroups", map[string]string{"Filter.1.Name": "group-name", "Filter.1.Value.1": "packer"}, &found)
	assert.Equal(t, []SecurityGroup{{
		ID: made.ID, Name: "packer", Description: "for a build", Owner: "123456789012", VPC: "vpc-00000000000000001", Tags: []Tag{{"k", "v"}},
		Ingress: []Permission{{"tcp", 22, 22, []Range{{"192.0.2.0/24"}, {"198.51.100.0/24"}}}},
	}}, found.Groups)

	id := b.run(map[string]string{"SecurityGroupId.1": made.ID})
	b.refused("DependencyViolation", "DeleteSecurityGroup", map[string]string{"GroupId": made.ID})
	b.call("TerminateInstances", map[string]string{"InstanceId.1": id}, nil)
	b.await(id, "terminated")
	b.call("DeleteSecurityGroup", map[string]string{"GroupId": made.ID}, nil)
	for _, action := range []string{"DeleteSecurityGroup", "AuthorizeSecurityGroupIngress"} {
		b.refused("InvalidGroup.NotFound", action, map[string]string{"GroupId": made.ID})
	}
	assert.Empty(t, b.double.Inventory())
}
