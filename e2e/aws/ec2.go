package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

// Tag is a tag.
type Tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// Image is an AMI.
type Image struct {
	ID           string  `xml:"imageId"`
	Name         string  `xml:"name"`
	Owner        string  `xml:"imageOwnerId"`
	Alias        string  `xml:"imageOwnerAlias,omitempty"`
	State        string  `xml:"imageState"`
	Architecture string  `xml:"architecture"`
	Created      string  `xml:"creationDate"`
	Deprecated   string  `xml:"deprecationTime,omitempty"`
	RootDevice   string  `xml:"rootDeviceName"`
	RootType     string  `xml:"rootDeviceType"`
	Platform     string  `xml:"platform,omitempty"`
	ENA          bool    `xml:"enaSupport"`
	Devices      []Drive `xml:"blockDeviceMapping>item"`
	Tags         []Tag   `xml:"tagSet>item"`
}

// Drive is a device of an image.
type Drive struct {
	Name     string `xml:"deviceName"`
	Snapshot string `xml:"ebs>snapshotId"`
}

// Instance is a machine; UserData is in base64.
type Instance struct {
	ID       string  `xml:"instanceId"`
	Image    string  `xml:"imageId"`
	Type     string  `xml:"instanceType"`
	Subnet   string  `xml:"subnetId"`
	Groups   []Group `xml:"groupSet>item"`
	Profile  string  `xml:"iamInstanceProfile>arn"`
	Tokens   string  `xml:"metadataOptions>httpTokens"`
	HopLimit int     `xml:"metadataOptions>httpPutResponseHopLimit"`
	Metadata string  `xml:"metadataOptions>httpEndpoint,omitempty"`
	State    string  `xml:"instanceState>name,omitempty"`
	Public   string  `xml:"ipAddress,omitempty"`
	Tags     []Tag   `xml:"tagSet>item"`
	UserData string  `xml:"-"`
}

// Template is a version of a launch template.
type Template struct {
	ID      string       `xml:"launchTemplateId"`
	Name    string       `xml:"launchTemplateName"`
	Version int          `xml:"versionNumber"`
	Default bool         `xml:"-"`
	Data    TemplateData `xml:"launchTemplateData"`
}

// TemplateData is what instances are started with.
type TemplateData struct {
	Image    string             `xml:"imageId,omitempty"`
	Type     string             `xml:"instanceType,omitempty"`
	Profile  string             `xml:"iamInstanceProfile>name"`
	Groups   []string           `xml:"securityGroupIdSet>item"`
	Tokens   string             `xml:"metadataOptions>httpTokens"`
	Metadata string             `xml:"metadataOptions>httpEndpoint,omitempty"`
	TagsToo  string             `xml:"metadataOptions>instanceMetadataTags,omitempty"`
	Networks []NetworkInterface `xml:"networkInterfaceSet>item"`
	UserData string             `xml:"userData"`
	Tags     []TagSpecification `xml:"tagSpecificationSet>item"`
}

// NetworkInterface is one that a template's instances get.
type NetworkInterface struct {
	Index  int      `xml:"deviceIndex"`
	Public *bool    `xml:"associatePublicIpAddress,omitempty"`
	Kind   string   `xml:"interfaceType,omitempty"`
	Subnet string   `xml:"subnetId,omitempty"`
	Groups []string `xml:"groupSet>groupId"`
}

// TagSpecification is the tags of one kind of what a template makes.
type TagSpecification struct {
	Kind string `xml:"resourceType"`
	Tags []Tag  `xml:"tagSet>item"`
}

// Subnet is a part of a VPC.
type Subnet struct {
	ID     string `xml:"subnetId"`
	VPC    string `xml:"vpcId"`
	Zone   string `xml:"availabilityZone"`
	CIDR   string `xml:"cidrBlock"`
	Free   int    `xml:"availableIpAddressCount"`
	Public bool   `xml:"mapPublicIpOnLaunch"`
	Tags   []Tag  `xml:"tagSet>item"`
}

// RouteTable is the routes of the subnets it names, or of its VPC.
type RouteTable struct {
	VPC     string   `xml:"vpcId"`
	Main    bool     `xml:"-"`
	Subnets []string `xml:"-"`
	Routes  []Route  `xml:"routeSet>item"`
}

// Route leads somewhere.
type Route struct {
	To      string `xml:"destinationCidrBlock"`
	Gateway string `xml:"gatewayId,omitempty"`
	NAT     string `xml:"natGatewayId,omitempty"`
	State   string `xml:"state"`
}

// VPC is a network.
type VPC struct {
	ID        string   `xml:"vpcId"`
	DHCP      string   `xml:"dhcpOptionsId"`
	CIDRs     []string `xml:"cidrBlockAssociationSet>item>cidrBlock"`
	Support   bool     `xml:"-"`
	Hostnames bool     `xml:"-"`
}

// DHCP is a set of options.
type DHCP struct {
	ID      string   `xml:"dhcpOptionsId"`
	Options []Option `xml:"dhcpConfigurationSet>item"`
}

// Option is one option with its values.
type Option struct {
	Key    string   `xml:"key"`
	Values []string `xml:"valueSet>item>value"`
}

// Set puts the one value of an option.
func (d *DHCP) Set(key, value string) {
	d.Options = append(slices.DeleteFunc(d.Options, func(o Option) bool { return o.Key == key }), Option{key, []string{value}})
}

// Endpoint is a private way to a service.
type Endpoint struct {
	ID         string `xml:"vpcEndpointId"`
	Service    string `xml:"serviceName"`
	VPC        string `xml:"vpcId"`
	Kind       string `xml:"vpcEndpointType"`
	State      string `xml:"state"`
	PrivateDNS bool   `xml:"privateDnsEnabled"`
}

type filter struct {
	Name   string   `query:"Name"`
	Values []string `query:"Value"`
}

// passes says whether a thing passes all filters; one it does not have is
// refused.
func passes(filters []filter, attributes map[string]string) (bool, error) {
	for _, f := range filters {
		value, known := attributes[f.Name]
		if !known {
			return false, endpoint.Refuse("the filter %q", f.Name)
		}
		if !slices.ContainsFunc(f.Values, func(p string) bool { return wildcard(p, value) }) {
			return false, nil
		}
	}
	return true, nil
}

// byID picks by identifiers. One that does not exist is an error of the code.
func byID[R any](all []R, ids []string, code string, id func(R) string) ([]R, error) {
	var chosen []R
	for _, want := range ids {
		i := slices.IndexFunc(all, func(r R) bool { return id(r) == want })
		if i < 0 {
			return nil, endpoint.Fail(code, "The ID '%s' does not exist", want)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (w *World) ec2() endpoint.Service {
	actions := map[string]endpoint.Action{
		"DescribeImages":                 endpoint.Handle(w.describeImages),
		"DescribeInstances":              endpoint.Handle(w.describeInstances),
		"DescribeInstanceAttribute":      endpoint.Handle(w.describeInstanceAttribute),
		"DescribeLaunchTemplateVersions": endpoint.Handle(w.describeTemplates),
		"DescribeInstanceTypes":          endpoint.Handle(w.describeTypes),
		"DescribeSubnets":                endpoint.Handle(w.describeSubnets),
		"DescribeRouteTables":            endpoint.Handle(w.describeRoutes),
		"DescribeSecurityGroups":         endpoint.Handle(w.describeGroups),
		"DescribeNetworkAcls":            endpoint.Handle(w.describeACLs),
		"DescribeVpcs":                   endpoint.Handle(w.describeVPCs),
		"DescribeVpcAttribute":           endpoint.Handle(w.describeVPCAttribute),
		"DescribeDhcpOptions":            endpoint.Handle(w.describeDHCP),
		"DescribeVpcEndpoints":           endpoint.Handle(w.describeEndpoints),
		"EnableImageDeprecation":         endpoint.Handle(w.deprecate),
		"DeregisterImage":                endpoint.Handle(w.deregister),
		"DeleteSnapshot":                 endpoint.Handle(w.deleteSnapshot),
	}
	maps.Copy(actions, w.users())
	return endpoint.Service{Name: "ec2", Protocol: endpoint.EC2{Version: "2016-11-15"}, Actions: actions}
}

type imagesIn struct {
	IDs        []string `query:"ImageId"`
	Owners     []string `query:"Owner"`
	Filters    []filter `query:"Filter"`
	Deprecated bool     `query:"IncludeDeprecated"`
	Disabled   bool     `query:"IncludeDisabled"`
	Token      string   `query:"NextToken"`
}

type imagesOut struct {
	Images []Image `xml:"imagesSet>item"`
	Token  string  `xml:"nextToken,omitempty"`
}

func (w *World) describeImages(_ context.Context, _ endpoint.Call, in imagesIn) (imagesOut, error) {
	all := w.Images
	var err error
	if len(in.IDs) > 0 {
		if all, err = byID(all, in.IDs, "InvalidAMIID.NotFound", func(i Image) string { return i.ID }); err != nil {
			return imagesOut{}, err
		}
	}
	var chosen []Image
	for _, i := range all {
		owner := i.Owner
		if owner == Account && slices.Contains(in.Owners, "self") {
			owner = "self"
		}
		if len(in.Owners) > 0 && !slices.Contains(in.Owners, owner) && !slices.Contains(in.Owners, i.Alias) {
			continue
		}
		attributes := map[string]string{"name": i.Name, "architecture": i.Architecture, "state": i.State}
		for _, t := range i.Tags {
			attributes["tag:"+t.Key] = t.Value
		}
		for _, f := range in.Filters {
			if _, there := attributes[f.Name]; !there && strings.HasPrefix(f.Name, "tag:") {
				attributes[f.Name] = ""
			}
		}
		ok, err := passes(in.Filters, attributes)
		if err != nil {
			return imagesOut{}, err
		}
		if ok {
			chosen = append(chosen, i)
		}
	}
	var out imagesOut
	out.Images, out.Token = page(w, chosen, in.Token)
	return out, nil
}

type reservation struct {
	Instances []Instance `xml:"instancesSet>item"`
}

type instancesOut struct {
	Reservations []reservation `xml:"reservationSet>item"`
	Token        string        `xml:"nextToken,omitempty"`
}

func (w *World) describeInstances(_ context.Context, _ endpoint.Call, in struct {
	IDs     []string `query:"InstanceId"`
	Filters []filter `query:"Filter"`
	Token   string   `query:"NextToken"`
}) (instancesOut, error) {
	if len(in.IDs) == 0 {
		var all []reservation
		for _, i := range w.Instances {
			ok, err := passes(in.Filters, map[string]string{"image-id": i.Image})
			if err != nil {
				return instancesOut{}, err
			}
			if ok {
				all = append(all, reservation{[]Instance{i}})
			}
		}
		var out instancesOut
		out.Reservations, out.Token = page(w, all, in.Token)
		return out, nil
	}
	chosen, err := byID(w.Instances, in.IDs, "InvalidInstanceID.NotFound", func(i Instance) string { return i.ID })
	var out instancesOut
	for _, i := range chosen {
		out.Reservations = append(out.Reservations, reservation{[]Instance{i}})
	}
	return out, err
}

type attributeOut struct {
	ID       string `xml:"instanceId"`
	UserData string `xml:"userData>value,omitempty"`
}

func (w *World) describeInstanceAttribute(_ context.Context, _ endpoint.Call, in struct {
	ID        string `query:"InstanceId"`
	Attribute string `query:"Attribute"`
}) (attributeOut, error) {
	if in.Attribute != "userData" {
		return attributeOut{}, endpoint.Refuse("the attribute %q", in.Attribute)
	}
	chosen, err := byID(w.Instances, []string{in.ID}, "InvalidInstanceID.NotFound", func(i Instance) string { return i.ID })
	if err != nil {
		return attributeOut{}, err
	}
	return attributeOut{in.ID, chosen[0].UserData}, nil
}

type templatesOut struct {
	Versions []Template `xml:"launchTemplateVersionSet>item"`
	Token    string     `xml:"nextToken,omitempty"`
}

func (w *World) describeTemplates(_ context.Context, _ endpoint.Call, in struct {
	ID       string   `query:"LaunchTemplateId"`
	Name     string   `query:"LaunchTemplateName"`
	Versions []string `query:"LaunchTemplateVersion"`
	Token    string   `query:"NextToken"`
}) (templatesOut, error) {
	i := slices.IndexFunc(w.Templates, func(t Template) bool { return t.ID == in.ID || in.ID == "" && t.Name == in.Name })
	if i < 0 {
		return templatesOut{}, endpoint.Fail("InvalidLaunchTemplateName.NotFoundException", "The specified launch template does not exist.")
	}
	chosen, err := w.versionsOf(w.Templates[i].ID, in.Versions)
	return templatesOut{Versions: chosen}, err
}

type typesOut struct {
	Types []instanceType `xml:"instanceTypeSet>item"`
}

type instanceType struct {
	Name          string   `xml:"instanceType"`
	Architectures []string `xml:"processorInfo>supportedArchitectures>item"`
}

func (w *World) describeTypes(_ context.Context, _ endpoint.Call, in struct {
	Names []string `query:"InstanceType"`
}) (typesOut, error) {
	var out typesOut
	for _, name := range in.Names {
		architectures, known := w.Types[name]
		if !known {
			return out, endpoint.Fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		out.Types = append(out.Types, instanceType{name, architectures})
	}
	return out, nil
}
