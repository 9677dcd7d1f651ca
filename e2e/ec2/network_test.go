package ec2

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNetworks(t *testing.T) {
	b := newBench(t)
	defer b.close()
	var regions describeRegionsOut
	b.call("DescribeRegions", nil, &regions)
	assert.Equal(t, []Region{{home}, {abroad}}, regions.Regions)
	var vpcs describeVPCsOut
	b.call("DescribeVpcs", map[string]string{"Filter.1.Name": "is-default", "Filter.1.Value.1": "true"}, &vpcs)
	require.Len(t, vpcs.VPCs, 1)
	var subnets describeSubnetsOut
	b.call("DescribeSubnets", map[string]string{"Filter.1.Name": "vpc-id", "Filter.1.Value.1": vpcs.VPCs[0].ID}, &subnets)
	require.Len(t, subnets.Subnets, 2)
	assert.Equal(t, []string{"us-east-1a", "us-east-1b"}, []string{subnets.Subnets[0].Zone, subnets.Subnets[1].Zone})
	b.in(abroad).refused("InvalidSubnetID.NotFound", "DescribeSubnets", map[string]string{"SubnetId.1": subnets.Subnets[0].ID})
	b.refused("InvalidVpcID.NotFound", "DescribeVpcs", map[string]string{"VpcId.1": "vpc-0"})
}
