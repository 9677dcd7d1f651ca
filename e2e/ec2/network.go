package ec2

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type vpc struct{ place }

type subnet struct {
	place
	vpc, zone string
}

// addNetwork gives a region its default VPC.
func (d *Double) addNetwork(region string) {
	network := &vpc{place{region, d.next("vpc")}}
	d.vpcs = append(d.vpcs, network)
	for _, zone := range []string{"a", "b"} {
		d.subnets = append(d.subnets, &subnet{place{region, d.next("subnet")}, network.id, region + zone})
	}
}

type describeRegionsIn struct{}

// Region is a region that can be used.
type Region struct {
	Name string `xml:"regionName"`
}

type describeRegionsOut struct {
	Regions []Region `xml:"regionInfo>item"`
}

func (d *Double) describeRegions(string, describeRegionsIn) (describeRegionsOut, error) {
	var out describeRegionsOut
	for _, name := range d.config.Regions {
		out.Regions = append(out.Regions, Region{name})
	}
	return out, nil
}

type describeVPCsIn struct {
	IDs     []string `query:"VpcId"`
	Filters []filter `query:"Filter"`
}

// VPC is a virtual network.
type VPC struct {
	ID        string `xml:"vpcId"`
	State     string `xml:"state"`
	IsDefault bool   `xml:"isDefault"`
}

type describeVPCsOut struct {
	VPCs []VPC `xml:"vpcSet>item"`
}

func (d *Double) describeVPCs(region string, in describeVPCsIn) (describeVPCsOut, error) {
	var out describeVPCsOut
	chosen, err := selected(inRegion(d.vpcs, region), in.IDs, "InvalidVpcID.NotFound",
		func(v *vpc) string { return v.id },
		func(v *vpc) (bool, error) {
			return matches(in.Filters, map[string]string{"vpc-id": v.id, "is-default": "true", "state": "available"}, nil)
		})
	for _, vpc := range chosen {
		out.VPCs = append(out.VPCs, VPC{ID: vpc.id, State: "available", IsDefault: true})
	}
	return out, err
}

type describeSubnetsIn struct {
	IDs     []string `query:"SubnetId"`
	Filters []filter `query:"Filter"`
}

// Subnet is a part of a VPC in one availability zone.
type Subnet struct {
	ID            string `xml:"subnetId"`
	VPC           string `xml:"vpcId"`
	Zone          string `xml:"availabilityZone"`
	State         string `xml:"state"`
	FreeAddresses int    `xml:"availableIpAddressCount"`
	DefaultForAZ  bool   `xml:"defaultForAz"`
}

type describeSubnetsOut struct {
	Subnets []Subnet `xml:"subnetSet>item"`
}

func (d *Double) describeSubnets(region string, in describeSubnetsIn) (describeSubnetsOut, error) {
	var out describeSubnetsOut
	chosen, err := selected(inRegion(d.subnets, region), in.IDs, "InvalidSubnetID.NotFound",
		func(s *subnet) string { return s.id },
		func(s *subnet) (bool, error) {
			return matches(in.Filters, map[string]string{
				"subnet-id": s.id, "vpc-id": s.vpc, "availability-zone": s.zone, "availabilityZone": s.zone,
				"state": "available", "default-for-az": strconv.FormatBool(true),
			}, nil)
		})
	for _, subnet := range chosen {
		out.Subnets = append(out.Subnets, Subnet{
			ID: subnet.id, VPC: subnet.vpc, Zone: subnet.zone, State: "available", FreeAddresses: 200, DefaultForAZ: true,
		})
	}
	return out, err
}

// chooseSubnet answers the subnet of a launch. Both parameters may be empty.
func (d *Double) chooseSubnet(region, id, zone string) (*subnet, error) {
	for _, subnet := range inRegion(d.subnets, region) {
		if cmp.Or(id, subnet.id) == subnet.id && cmp.Or(zone, subnet.zone) == subnet.zone {
			return subnet, nil
		}
	}
	return nil, endpoint.Fail("InvalidSubnetID.NotFound", "no subnet '%s' in the availability zone '%s'", id, zone)
}

// regional is anything that is in a region.
type regional interface{ where() place }

func (p place) where() place { return p }

func inRegion[R regional](all []R, region string) []R {
	return slices.DeleteFunc(slices.Clone(all), func(r R) bool { return r.where().region != region })
}

// find answers the resource of an identifier in a region, or an error of the
// given code.
func find[R regional](all []R, region, id, missing string) (found R, err error) {
	index := slices.IndexFunc(all, func(r R) bool { return r.where() == place{region, id} })
	if index < 0 {
		return found, endpoint.Fail(missing, "the ID '%s' does not exist", id)
	}
	return all[index], nil
}
