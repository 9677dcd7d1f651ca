package awsapi

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// ACL is a network access list, which filters traffic at the border of its subnets.
type ACL struct {
	ID      string
	Subnets []string
	// Entries are in the order of their numbers. The first match decides.
	Entries []ACLEntry
}

// ACLEntry allows or denies traffic.
type ACLEntry struct {
	Number        int
	Egress, Allow bool
	// Protocol is an IP protocol number, or -1 for all.
	Protocol string
	From, To int
	// CIDR is the other side.
	CIDR string
}

// tcp is the protocol number of TCP.
const tcp = "6"

// ACLs describes the network ACLs of subnets.
func (a *AWS) ACLs(ctx context.Context, subnets []string) ([]ACL, error) {
	var acls []ACL
	pages := ec2.NewDescribeNetworkAclsPaginator(a.ec2, &ec2.DescribeNetworkAclsInput{
		Filters: []types.Filter{{Name: aws.String("association.subnet-id"), Values: subnets}},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explain("describing the network ACLs", err)
		}
		for _, in := range page.NetworkAcls {
			acls = append(acls, aclOf(in))
		}
	}
	return acls, nil
}

func aclOf(in types.NetworkAcl) ACL {
	acl := ACL{ID: aws.ToString(in.NetworkAclId)}
	for _, s := range in.Associations {
		acl.Subnets = append(acl.Subnets, aws.ToString(s.SubnetId))
	}
	for _, e := range in.Entries {
		entry := ACLEntry{
			Number: int(aws.ToInt32(e.RuleNumber)), Egress: aws.ToBool(e.Egress), Allow: e.RuleAction == types.RuleActionAllow,
			Protocol: aws.ToString(e.Protocol), To: 65535, CIDR: aws.ToString(e.CidrBlock),
		}
		if e.CidrBlock == nil {
			entry.CIDR = aws.ToString(e.Ipv6CidrBlock)
		}
		if e.PortRange != nil {
			entry.From, entry.To = int(aws.ToInt32(e.PortRange.From)), int(aws.ToInt32(e.PortRange.To))
		}
		acl.Entries = append(acl.Entries, entry)
	}
	slices.SortFunc(acl.Entries, func(a, b ACLEntry) int { return a.Number - b.Number })
	return acl
}

// Lets says whether TCP to a range of ports may pass: out to a network with egress,
// otherwise in from the network. An entry that denies a part of the network or the
// ports denies the whole.
func (l ACL) Lets(egress bool, from, to int, network string) bool {
	other, err := netip.ParsePrefix(network)
	if err != nil {
		return false
	}
	for _, e := range l.Entries {
		cidr, err := netip.ParsePrefix(e.CIDR)
		if err != nil || e.Egress != egress || e.Protocol != "-1" && e.Protocol != tcp {
			continue
		}
		switch {
		case !e.Allow && cidr.Overlaps(other) && e.From <= to && e.To >= from:
			return false
		case e.Allow && cidr.Bits() <= other.Bits() && cidr.Contains(other.Addr()) && e.From <= from && e.To >= to:
			return true
		}
	}
	return false
}
