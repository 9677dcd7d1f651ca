// Package instance gathers the facts about the EC2 instance that a node's
// configuration depends on.
package instance

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
)

// Facts holds the facts about the instance. They do not change while the instance
// runs.
type Facts struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Region string `json:"region"`
	Zone   string `json:"zone"`
	// MAC is the primary interface's MAC address.
	MAC string `json:"mac"`
	// PrivateDNSName is EC2's name of the instance, which the authenticator maps to
	// the node's user. It is empty unless Wants includes it.
	PrivateDNSName string `json:"privateDnsName,omitempty"`
	// Address is the primary interface's first address in the cluster's address
	// family.
	Address string `json:"address"`
	// VPCNetworks lists the VPC's IPv4 networks; empty unless Wants includes them.
	VPCNetworks []string `json:"vpcNetworks,omitempty"`
	// Domain is the partition's domain of services, such as amazonaws.com; empty
	// unless Wants includes it.
	Domain string `json:"domain,omitempty"`
	// Limits holds the limits of the instance type; zero when unknown.
	Limits Limits `json:"limits,omitzero"`
}

// Wants selects the facts that cost a request.
type Wants struct {
	IPv6, PrivateDNSName, VPCNetworks, Domain, Limits bool
	// Size adds the type's processors and memory to Limits.
	Size bool
}

// EC2 holds the EC2 API calls for facts that the metadata service does not have.
type EC2 interface {
	// PrivateDNSName returns the instance's private DNS name. It waits until the
	// instance has a name.
	PrivateDNSName(ctx context.Context, region, instanceID string) (string, error)
	// InstanceLimits returns the limits of an instance type. Gather calls it when
	// the built-in table does not have all limits.
	InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error)
}

// Gather returns the facts. The warnings name unknown facts that have a default.
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
		return "", fmt.Errorf("%w: the cluster is IPv6, but the instance's primary interface has no IPv6 address; "+
			"use a subnet that assigns one", err)
	}
	if err != nil {
		return "", err
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	ip, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil || ip.Is6() != ipv6 {
		return "", fmt.Errorf("the metadata entry %s is not an address: %q", entry, first)
	}
	return ip.String(), nil
}

// privateDNSName returns EC2's private DNS name of the instance. The metadata
// service's local-hostname is used if it has EC2's form. Otherwise the VPC's DHCP
// options set another domain, and EC2 supplies the name that the authenticator
// expects (amazon-eks-ami #1263, #1376).
func privateDNSName(ctx context.Context, service Metadata, ec2 EC2, f Facts) (string, error) {
	name, err := ReadLine(ctx, service, "meta-data/local-hostname")
	if err == nil && isPrivateDNSName(name, f) {
		return name, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if name, err = ec2.PrivateDNSName(ctx, f.Region, f.ID); err != nil {
		return "", fmt.Errorf("requesting the instance's private DNS name, which is the node's name, from EC2: %w", err)
	}
	return name, nil
}

// isPrivateDNSName reports whether a name has one of the two forms of EC2's names:
// from the IPv4 address or from the instance ID.
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

// findLimits sets the limits from the built-in table, and from EC2 if the table lacks
// the type or the size is wanted. A node of an unknown type still joins, with the
// kubelet's default number of pods.
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
		return []string{fmt.Sprintf("the size of the instance type %s is unknown: %v", f.Type, err)}
	default:
		return []string{fmt.Sprintf("the instance type %s is unknown, so the node takes %d pods: %v", f.Type,
			DefaultMaxPods, err)}
	}
}

// ProviderID returns the instance's ID in the form of the AWS cloud provider.
func (f Facts) ProviderID() string { return fmt.Sprintf("aws:///%s/%s", f.Zone, f.ID) }

// MaxPods returns the number of pods for which the instance has addresses. For an
// unknown instance type this is the kubelet's default.
func (f Facts) MaxPods() int {
	if f.Limits == (Limits{}) {
		return DefaultMaxPods
	}
	return f.Limits.MaxPods()
}

//go:generate go run ./generate

// limits is a table of about 20 KB. The same table as Go source compiles to more than
// ten times that size.
//
//go:embed limits.txt
var limits string

// Limits holds the network limits and the size of an instance type.
type Limits struct {
	// ENIs is the maximum number of network interfaces on the default network card,
	// and IPsPerENI the number of IPv4 addresses of each interface.
	ENIs, IPsPerENI int
	// VCPUs and MemoryMiB come from EC2 only; 0 means unknown, because the built-in
	// table does not have them.
	VCPUs, MemoryMiB int `json:",omitempty"`
}

// DefaultMaxPods is the kubelet's default, for unknown instance types.
const DefaultMaxPods = 110

// MaxPods returns the number of pods for which the VPC CNI has addresses. The first
// address of every interface is not for pods. Two pods use the node's address: the
// CNI itself and kube-proxy.
func (l Limits) MaxPods() int { return l.ENIs*(l.IPsPerENI-1) + 2 }

// LimitsOf returns an instance type's limits from the built-in table. Sources:
// github.com/aws/amazon-vpc-cni-k8s, and for its missing types
// github.com/aws/amazon-vpc-resource-controller-k8s, in the versions named in
// limits.txt.
func LimitsOf(instanceType string) (l Limits, known bool) {
	for line := range strings.Lines(limits) {
		if line[0] == '#' || !slices.Contains(strings.Fields(line)[2:], instanceType) {
			continue
		}
		_, err := fmt.Sscan(line, &l.ENIs, &l.IPsPerENI)
		return l, err == nil
	}
	return Limits{}, false
}

// Metadata is the instance metadata service.
type Metadata interface {
	// Get reads an entry below /latest/, such as meta-data/mac. The error of an
	// entry that the instance does not have is fs.ErrNotExist.
	Get(ctx context.Context, entry string) ([]byte, error)
}

// Identity holds fields of the instance identity document.
type Identity struct {
	InstanceID       string `json:"instanceId"`
	InstanceType     string `json:"instanceType"`
	Region           string `json:"region"`
	AvailabilityZone string `json:"availabilityZone"`
}

// ReadIdentity reads the instance identity document.
func ReadIdentity(ctx context.Context, service Metadata) (Identity, error) {
	const entry = "dynamic/instance-identity/document"
	var id Identity
	data, err := service.Get(ctx, entry)
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(data, &id); err != nil || id.InstanceID == "" || id.Region == "" ||
		id.AvailabilityZone == "" {
		return id, unexpected(entry, data)
	}
	return id, nil
}

// ReadLine reads an entry that must be a single line.
func ReadLine(ctx context.Context, service Metadata, entry string) (string, error) {
	data, err := service.Get(ctx, entry)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" || strings.ContainsAny(text, "<>\r\n\x00") {
		return "", unexpected(entry, data)
	}
	return text, nil
}

func unexpected(entry string, data []byte) error {
	const most = 60
	return fmt.Errorf("asking the instance metadata service for %s: unexpected content %q: something else answers "+
		"at the service's address", entry, data[:min(most, len(data))])
}
