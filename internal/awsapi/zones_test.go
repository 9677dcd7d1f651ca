package awsapi

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/assert"
)

func TestRecordsMatchNames(t *testing.T) {
	const name = "ec2.eu-west-1.amazonaws.com"
	for record, want := range map[string]bool{
		name + ".": true, "EC2.eu-west-1.amazonaws.com.": true, `\052.eu-west-1.amazonaws.com.`: true, "*.amazonaws.com": true,
		"amazonaws.com.": false, `\052.us-east-1.amazonaws.com.`: false, "*.ec2.eu-west-1.amazonaws.com.": false, "": false,
	} {
		assert.Equal(t, want, recordMatches(record, name), record)
	}
}

// A subnet's own route table wins over the VPC's main table, and a table of another
// account is not shown.
func TestRoutesOfSubnets(t *testing.T) {
	table := func(id string, of types.RouteTableAssociation, routes ...types.Route) types.RouteTable {
		return types.RouteTable{RouteTableId: aws.String(id), Associations: []types.RouteTableAssociation{of}, Routes: routes}
	}
	all := []types.RouteTable{
		table("rtb-main", types.RouteTableAssociation{Main: aws.Bool(true)},
			types.Route{DestinationCidrBlock: aws.String("10.0.0.0/16"), GatewayId: aws.String("local"), State: types.RouteStateActive},
			types.Route{DestinationIpv6CidrBlock: aws.String("::/0"), EgressOnlyInternetGatewayId: aws.String("eigw-1"), State: types.RouteStateBlackhole}),
		table("rtb-1", types.RouteTableAssociation{SubnetId: aws.String("subnet-1")},
			types.Route{DestinationCidrBlock: aws.String("0.0.0.0/0"), VpcPeeringConnectionId: aws.String("pcx-1"), State: types.RouteStateActive},
			types.Route{DestinationPrefixListId: aws.String("pl-1"), State: types.RouteStateActive}),
	}
	id, routes := routesOf(all, "subnet-1")
	assert.Equal(t, "rtb-1", id)
	assert.Equal(t, []Route{{"0.0.0.0/0", "pcx-1", false}, {"pl-1", "", true}}, routes)
	id, routes = routesOf(all, "subnet-2")
	assert.Equal(t, "rtb-main", id)
	assert.Equal(t, []Route{{"::/0", "eigw-1", true}}, routes)
	id, routes = routesOf(all[1:], "subnet-2")
	assert.Empty(t, id)
	assert.Nil(t, routes)
}
