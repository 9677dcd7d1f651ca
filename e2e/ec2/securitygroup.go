package ec2

import (
	"cmp"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

type securityGroup struct {
	place
	name, description, vpc string
	ingress                []Permission
}

// Permission opens ports to addresses.
type Permission struct {
	Protocol string  `xml:"ipProtocol" query:"IpProtocol"`
	FromPort int     `xml:"fromPort" query:"FromPort"`
	ToPort   int     `xml:"toPort" query:"ToPort"`
	Ranges   []Range `xml:"ipRanges>item" query:"IpRanges"`
}

// Range is a range of IPv4 addresses.
type Range struct {
	CIDR string `xml:"cidrIp" query:"CidrIp"`
}

type createSecurityGroupIn struct {
	Name           string             `query:"GroupName"`
	Description    string             `query:"GroupDescription"`
	VPC            string             `query:"VpcId"`
	Specifications []tagSpecification `query:"TagSpecification"`
}

type createSecurityGroupOut struct {
	ID   string `xml:"groupId"`
	Tags []Tag  `xml:"tagSet>item"`
}

func (d *Double) createSecurityGroup(region string, in createSecurityGroupIn) (createSecurityGroupOut, error) {
	tags, err := tagsFor(in.Specifications, "security-group")
	if err != nil {
		return createSecurityGroupOut{}, err
	}
	network := inRegion(d.vpcs, region)[0].id
	if cmp.Or(in.VPC, network) != network {
		return createSecurityGroupOut{}, endpoint.Fail("InvalidVpcID.NotFound", "the vpc ID '%s' does not exist", in.VPC)
	}
	if slices.ContainsFunc(inRegion(d.groups, region), func(g *securityGroup) bool { return g.name == in.Name }) {
		return createSecurityGroupOut{}, endpoint.Fail("InvalidGroup.Duplicate", "the security group '%s' already exists", in.Name)
	}
	group := &securityGroup{place: place{region, d.next("sg")}, name: in.Name, description: in.Description, vpc: network}
	d.groups = append(d.groups, group)
	d.tag(group.id, tags["security-group"])
	return createSecurityGroupOut{ID: group.id, Tags: d.tags[group.id]}, nil
}

type describeSecurityGroupsIn struct {
	IDs     []string `query:"GroupId"`
	Filters []filter `query:"Filter"`
}

// SecurityGroup is a named list of permissions.
type SecurityGroup struct {
	ID          string       `xml:"groupId"`
	Name        string       `xml:"groupName"`
	Description string       `xml:"groupDescription"`
	Owner       string       `xml:"ownerId"`
	VPC         string       `xml:"vpcId"`
	Ingress     []Permission `xml:"ipPermissions>item"`
	Tags        []Tag        `xml:"tagSet>item"`
}

type describeSecurityGroupsOut struct {
	Groups []SecurityGroup `xml:"securityGroupInfo>item"`
}

func (d *Double) describeSecurityGroups(region string, in describeSecurityGroupsIn) (describeSecurityGroupsOut, error) {
	var out describeSecurityGroupsOut
	chosen, err := selected(inRegion(d.groups, region), in.IDs, "InvalidGroup.NotFound",
		func(g *securityGroup) string { return g.id },
		func(g *securityGroup) (bool, error) {
			return matches(in.Filters, map[string]string{
				"group-id": g.id, "group-name": g.name, "vpc-id": g.vpc, "description": g.description,
			}, d.tags[g.id])
		})
	for _, group := range chosen {
		out.Groups = append(out.Groups, SecurityGroup{
			ID: group.id, Name: group.name, Description: group.description, Owner: d.config.Account,
			VPC: group.vpc, Ingress: group.ingress, Tags: d.tags[group.id],
		})
	}
	return out, err
}

type authorizeIngressIn struct {
	ID          string       `query:"GroupId"`
	Permissions []Permission `query:"IpPermissions"`
}

func (d *Double) authorizeIngress(region string, in authorizeIngressIn) (done, error) {
	group, err := find(d.groups, region, in.ID, "InvalidGroup.NotFound")
	if err != nil {
		return done{}, err
	}
	group.ingress = slices.Concat(group.ingress, in.Permissions)
	return done{Return: true}, nil
}

type deleteSecurityGroupIn struct {
	ID string `query:"GroupId"`
}

func (d *Double) deleteSecurityGroup(region string, in deleteSecurityGroupIn) (done, error) {
	group, err := find(d.groups, region, in.ID, "InvalidGroup.NotFound")
	if err != nil {
		return done{}, err
	}
	for _, instance := range d.instances {
		if instance.state != terminated && slices.Contains(instance.groups, group) {
			return done{}, endpoint.Fail("DependencyViolation", "resource %s has a dependent object: the instance %s",
				group.id, instance.id)
		}
	}
	d.groups = slices.DeleteFunc(d.groups, func(g *securityGroup) bool { return g == group })
	return done{Return: true}, nil
}
