package awsapi

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
)

// Cluster is a cluster as DescribeCluster returns it.
type Cluster struct {
	Name, ARN, Status string
	// Version is the control plane's version, such as 1.36.
	Version  string
	Endpoint string
	// CA is the certificate authority in base64.
	CA string
	// ServiceCIDR is the service network; IPFamily says whether it is IPv4 or IPv6.
	ServiceCIDR, IPFamily string
	// AuthenticationMode is CONFIG_MAP, API or API_AND_CONFIG_MAP.
	AuthenticationMode string
	VPC                string
	Subnets            []string
	// ClusterSecurityGroup is the group that EKS made. SecurityGroups are the
	// additional groups.
	ClusterSecurityGroup        string
	SecurityGroups              []string
	PublicAccess, PrivateAccess bool
	// PublicCIDRs are the networks that may reach the public endpoint.
	PublicCIDRs []string
	// Role is the ARN of the control plane's role.
	Role string
	// Outpost says that the cluster is a local cluster on an Outpost, identified by
	// ID.
	Outpost bool
	ID      string
	// AutoMode says that EKS Auto Mode runs nodes of its own.
	AutoMode bool
	// Issuer is the address of the cluster's OpenID Connect issuer.
	Issuer string
}

// Active says whether nodes can join.
func (c Cluster) Active() bool {
	return c.Status == string(types.ClusterStatusActive) || c.Status == string(types.ClusterStatusUpdating)
}

// Cluster describes a cluster. A cluster that is still being created has no
// endpoint; the caller decides whether that matters.
func (a *AWS) Cluster(ctx context.Context, name string) (Cluster, error) {
	doing := "describing the cluster " + name
	out, err := a.eks.DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)})
	if err != nil {
		return Cluster{}, explain(doing, err)
	}
	if out.Cluster == nil || aws.ToString(out.Cluster.Name) == "" {
		return Cluster{}, errIncomplete(doing, "cluster")
	}
	return clusterOf(out.Cluster), nil
}

// Clusters lists the names of the clusters in the region.
func (a *AWS) Clusters(ctx context.Context) ([]string, error) {
	pages := eks.NewListClustersPaginator(a.eks, &eks.ListClustersInput{})
	return collect(each[string](ctx, "listing the clusters", pages), func(name string) string { return name })
}

func clusterOf(in *types.Cluster) Cluster {
	c := Cluster{
		Name: aws.ToString(in.Name), ARN: aws.ToString(in.Arn), Status: string(in.Status),
		Version: aws.ToString(in.Version), Endpoint: aws.ToString(in.Endpoint), Role: aws.ToString(in.RoleArn),
		Outpost: in.OutpostConfig != nil, ID: aws.ToString(in.Id),
	}
	if in.CertificateAuthority != nil {
		c.CA = aws.ToString(in.CertificateAuthority.Data)
	}
	if n := in.KubernetesNetworkConfig; n != nil {
		c.IPFamily, c.ServiceCIDR = string(n.IpFamily), aws.ToString(n.ServiceIpv4Cidr)
		if n.IpFamily == types.IpFamilyIpv6 {
			c.ServiceCIDR = aws.ToString(n.ServiceIpv6Cidr)
		}
	}
	// EKS omits the mode for clusters that are older than access entries.
	c.AuthenticationMode = string(types.AuthenticationModeConfigMap)
	if in.AccessConfig != nil && in.AccessConfig.AuthenticationMode != "" {
		c.AuthenticationMode = string(in.AccessConfig.AuthenticationMode)
	}
	c.AutoMode = in.ComputeConfig != nil && aws.ToBool(in.ComputeConfig.Enabled)
	if in.Identity != nil && in.Identity.Oidc != nil {
		c.Issuer = aws.ToString(in.Identity.Oidc.Issuer)
	}
	if v := in.ResourcesVpcConfig; v != nil {
		c.VPC, c.Subnets, c.SecurityGroups = aws.ToString(v.VpcId), v.SubnetIds, v.SecurityGroupIds
		c.ClusterSecurityGroup = aws.ToString(v.ClusterSecurityGroupId)
		c.PublicAccess, c.PrivateAccess, c.PublicCIDRs = v.EndpointPublicAccess, v.EndpointPrivateAccess,
			v.PublicAccessCidrs
	}
	return c
}

// AccessEntry gives a role access without aws-auth.
type AccessEntry struct {
	// Type is STANDARD, EC2_LINUX, EC2_WINDOWS, FARGATE_LINUX or another.
	Type string
	// Username is the user's name in Kubernetes.
	Username string
}

// AccessEntry describes the access entry of a role's ARN. An error for which
// IsNotFound is true means that there is none.
func (a *AWS) AccessEntry(ctx context.Context, name, principal string) (AccessEntry, error) {
	out, err := a.eks.DescribeAccessEntry(ctx, &eks.DescribeAccessEntryInput{ClusterName: aws.String(name),
		PrincipalArn: aws.String(principal)})
	if err != nil {
		return AccessEntry{}, explain("describing the access entry of "+principal, err)
	}
	if out.AccessEntry == nil {
		return AccessEntry{}, errIncomplete("describing the access entry of "+principal, "access entry")
	}
	return AccessEntry{aws.ToString(out.AccessEntry.Type), aws.ToString(out.AccessEntry.Username)}, nil
}

// Addon is an add-on that EKS manages.
type Addon struct {
	Name, Version, Status string
	// Role is the ARN of its service account's role. Configuration are the values
	// that were set. Both may be empty.
	Role, Configuration string
}

// Addons lists the cluster's add-ons.
func (a *AWS) Addons(ctx context.Context, name string) ([]Addon, error) {
	var addons []Addon
	pages := eks.NewListAddonsPaginator(a.eks, &eks.ListAddonsInput{ClusterName: aws.String(name)})
	for addon, err := range each[string](ctx, "listing the add-ons of "+name, pages) {
		if err != nil {
			return nil, err
		}
		out, err := a.eks.DescribeAddon(ctx, &eks.DescribeAddonInput{ClusterName: aws.String(name),
			AddonName: aws.String(addon)})
		if err != nil {
			return nil, explain("describing the add-on "+addon, err)
		}
		if out.Addon == nil {
			return nil, errIncomplete("describing the add-on "+addon, "add-on")
		}
		addons = append(addons, Addon{
			Name: addon, Version: aws.ToString(out.Addon.AddonVersion), Status: string(out.Addon.Status),
			Role:          aws.ToString(out.Addon.ServiceAccountRoleArn),
			Configuration: aws.ToString(out.Addon.ConfigurationValues),
		})
	}
	return addons, nil
}

// ProfilesOf lists the names of the instance profiles that have a role.
func (a *AWS) ProfilesOf(ctx context.Context, role string) ([]string, error) {
	pages := iam.NewListInstanceProfilesForRolePaginator(a.iam,
		&iam.ListInstanceProfilesForRoleInput{RoleName: aws.String(role)})
	return collect(each[iamtypes.InstanceProfile](ctx, "listing the instance profiles of the role "+role, pages),
		func(p iamtypes.InstanceProfile) string { return aws.ToString(p.InstanceProfileName) })
}

// PolicyDocument reads the default version of a managed policy as JSON. An error for
// which IsNotFound is true means that there is no such policy.
func (a *AWS) PolicyDocument(ctx context.Context, arn string) (string, error) {
	doing := "reading the policy " + arn
	policy, err := a.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: aws.String(arn)})
	if err != nil {
		return "", explain(doing, err)
	}
	if policy.Policy == nil {
		return "", errIncomplete(doing, "policy")
	}
	out, err := a.iam.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: aws.String(arn),
		VersionId: policy.Policy.DefaultVersionId})
	if err != nil {
		return "", explain(doing, err)
	}
	if out.PolicyVersion == nil {
		return "", errIncomplete(doing, "document")
	}
	text, err := url.QueryUnescape(aws.ToString(out.PolicyVersion.Document))
	return text, explain(doing, err)
}

// Pinned returns the name of an image with the present version of its SSM parameter.
// An image ID stays as it is.
func (a *AWS) Pinned(ctx context.Context, image string) (string, error) {
	name, parameter := strings.CutPrefix(image, awsnames.ByParameter)
	if !parameter {
		return image, nil
	}
	p, err := a.parameter(ctx, name)
	if err == nil && p.Version == 0 {
		err = errIncomplete("reading the version of the parameter "+name, "version")
	}
	return fmt.Sprintf("%s%s:%d", awsnames.ByParameter, aws.ToString(p.Name), p.Version), err
}
