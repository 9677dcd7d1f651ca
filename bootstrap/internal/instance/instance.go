// Package instance is what a node must know about the EC2 instance it runs on.
package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
)

// Facts do not change while an instance runs.
type Facts struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Region string `json:"region"`
	Zone   string `json:"zone"`
	// MAC is the primary interface's.
	MAC string `json:"mac"`
	// PrivateDNSName is EC2's name of the instance, which the authenticator
	// maps to the node's user. It is empty when it was not asked for.
	PrivateDNSName string `json:"privateDnsName,omitempty"`
	// Address is the primary interface's first address, of the cluster's
	// family.
	Address string `json:"address"`
	// VPCNetworks are the VPC's IPv4 networks; empty when not asked for.
	VPCNetworks []string `json:"vpcNetworks,omitempty"`
	// Domain is the partition's domain of services, such as amazonaws.com;
	// empty when not asked for.
	Domain string `json:"domain,omitempty"`
	// Limits are the instance type's; zero when nobody knows them.
	Limits Limits `json:"limits,omitzero"`
}

// Wants says which of the facts that cost a request are needed.
type Wants struct {
	IPv6, PrivateDNSName, VPCNetworks, Domain, Limits bool
	// Size adds the type's processors and memory to Limits.
	Size bool
}

// EC2 answers what the metadata service does not know. It is asked only when
// that is needed.
type EC2 interface {
	// PrivateDNSName is the instance's private DNS name; it waits until the
	// instance has one.
	PrivateDNSName(ctx context.Context, region, instanceID string) (string, error)
	// InstanceLimits are those of a type, of which the built-in table does not
	// know all that is wanted.
	InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error)
}

// Gather asks for the facts. Warnings are about what could not be learned and
// has a default.
func Gather(ctx context.Context, service Metadata, ec2 EC2, want Wants) (f Facts, warnings []string, err error) {
	id, err := ReadIdentity(ctx, service)
	if err != nil {
		return f, nil, err
	}
	f = Facts{ID: id.InstanceID, Type: id.InstanceType, Region: id.Region, Zone: id.AvailabilityZone}
	if f.MAC, err = ReadLine(ctx, service, "meta-data/mac"); err != nil {
		return f, nil, err
	}
	f.MAC = strings.ToLower(f.MAC)
	if f.Address, err = address(ctx, service, f.MAC, want.IPv6); err != nil {
		return f, nil, err
	}
	if want.PrivateDNSName {
		if f.PrivateDNSName, err = privateDNSName(ctx, service, ec2, f); err != nil {
			return f, nil, err
		}
	}
	if want.VPCNetworks {
		blocks, err := service.Get(ctx, "meta-data/network/interfaces/macs/"+f.MAC+"/vpc-ipv4-cidr-blocks")
		if err != nil {
			return f, nil, err
		}
		f.VPCNetworks = strings.Fields(string(blocks))
	}
	if want.Domain {
		if f.Domain, err = ReadLine(ctx, service, "meta-data/services/domain"); err != nil {
			return f, nil, err
		}
	}
	if want.Limits || want.Size {
		warnings = f.findLimits(ctx, ec2, want.Size)
	}
	return f, warnings, nil
}

func address(ctx context.Context, service Metadata, mac string, ipv6 bool) (string, error) {
	entry := "meta-data/local-ipv4"
	if ipv6 {
		entry = "meta-data/network/interfaces/macs/" + mac + "/ipv6s"
	}
	data, err := service.Get(ctx, entry)
	if errors.Is(err, fs.ErrNotExist) && ipv6 {
		return "", fmt.Errorf("%w: the cluster is IPv6, but the instance's primary interface has no IPv6 address; use a subnet that assigns one", err)
	}
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	ip, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil || ip.Is6() != ipv6 {
		return "", fmt.Errorf("the metadata entry %s is no address: %q", entry, first)
	}
	return ip.String(), nil
}

// privateDNSName takes the metadata service's name of the instance when it has
// EC2's own form, and asks EC2 otherwise: where a VPC's DHCP options have a
// domain of their own, the two differ, and the authenticator knows EC2's
// (amazon-eks-ami #1263, #1376).
func privateDNSName(ctx context.Context, service Metadata, ec2 EC2, f Facts) (string, error) {
	name, err := ReadLine(ctx, service, "meta-data/local-hostname")
	if err == nil && isPrivateDNSName(name, f) {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name, err = ec2.PrivateDNSName(ctx, f.Region, f.ID); err != nil {
		return "", fmt.Errorf("asking EC2 for the instance's private DNS name, which is the node's name: %w", err)
	}
	return name, nil
}

// isPrivateDNSName knows the two forms of EC2's names: after the IPv4 address
// and after the instance's id.
func isPrivateDNSName(name string, f Facts) bool {
	label, domain, _ := strings.Cut(name, ".")
	want := f.Region + ".compute.internal"
	if f.Region == "us-east-1" && strings.HasPrefix(label, "ip-") {
		want = "ec2.internal"
	}
	if domain != want {
		return false
	}
	if label == f.ID {
		return true
	}
	ip, err := netip.ParseAddr(strings.ReplaceAll(strings.TrimPrefix(label, "ip-"), "-", "."))
	return err == nil && ip.Is4() && (!strings.Contains(f.Address, ".") || ip.String() == f.Address)
}

// findLimits asks EC2 only about types that are newer than the table, and about
// sizes. A node whose type nobody knows still joins, with the kubelet's default.
func (f *Facts) findLimits(ctx context.Context, ec2 EC2, size bool) (warnings []string) {
	known, ok := LimitsOf(f.Type)
	if ok && !size {
		f.Limits = known
		return nil
	}
	asked, err := ec2.InstanceLimits(ctx, f.Region, f.Type)
	switch {
	case err == nil:
		f.Limits = asked
		return nil
	case ok:
		f.Limits = known
		return []string{fmt.Sprintf("nobody knows how large a %s is: %v", f.Type, err)}
	default:
		return []string{fmt.Sprintf("the instance type %s is unknown, so the node takes %d pods: %v", f.Type, DefaultMaxPods, err)}
	}
}

// ProviderID names the instance as the cloud provider does.
func (f Facts) ProviderID() string { return fmt.Sprintf("aws:///%s/%s", f.Zone, f.ID) }

// MaxPods is how many pods the instance has addresses for; the kubelet's
// default when its type is unknown.
func (f Facts) MaxPods() int {
	if f.Limits == (Limits{}) {
		return DefaultMaxPods
	}
	return f.Limits.MaxPods()
}
