// Package cluster is the Packer data source `eksnode-cluster`: the
// version, network and other facts of an EKS cluster, for the rest of a template.
package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/packer-plugin-sdk/common"
	"github.com/zclconf/go-cty/cty"

	aws "github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Datasource implements packersdk.Datasource.
type Datasource struct {
	validate.Source[Config, Output]
}

// Configure decodes and checks the fields. All problems are joined.
func (d *Datasource) Configure(raws ...any) error {
	if err := d.Decode(nil, raws...); err != nil {
		return err
	}
	var fault error
	switch name := d.Config.Name; {
	case name == "":
		fault = errors.New("name: the cluster's name is missing")
	case !validate.IsUnknown(name):
		if err := awsnames.ClusterName.Check(name); err != nil {
			fault = fmt.Errorf("name: %w", err)
		}
	}
	return validate.All(fault, d.Config.Config.Prepare())
}

// Execute asks AWS. Packer's data sources have no context: they end with Packer.
func (d *Datasource) Execute() (cty.Value, error) {
	ctx := context.Background()
	none := cty.NullVal(cty.EmptyObject)
	a, err := d.Config.Open(ctx)
	if err != nil {
		return none, err
	}
	c, err := a.Cluster(ctx, d.Config.Name)
	if err != nil {
		return none, err
	}
	if !c.Active() {
		return none, fmt.Errorf("reading the cluster %s: it is %s, and tells its endpoint when it is ACTIVE", c.Name,
			c.Status)
	}
	return d.Value(outputOf(c)), nil
}

func outputOf(c aws.Cluster) Output {
	return Output{
		Name: c.Name, ARN: c.ARN, Version: c.Version, Endpoint: c.Endpoint, CertificateAuthority: c.CA,
		ServiceCIDR: c.ServiceCIDR, IPFamily: c.IPFamily, AuthenticationMode: c.AuthenticationMode, VPCID: c.VPC,
		SubnetIDs: c.Subnets, ClusterSecurityGroupID: c.ClusterSecurityGroup, SecurityGroupIDs: c.SecurityGroups,
	}
}

// Config holds the fields of a `data "eksnode-cluster"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// Cluster name.
	Name string `mapstructure:"name" required:"true"`
}

// Output holds the results of the data source.
type Output struct {
	// Name and ARN of the cluster.
	Name string `mapstructure:"name"`
	ARN  string `mapstructure:"arn"`
	// Kubernetes version of the control plane, such as `1.36`.
	Version string `mapstructure:"version"`
	// URL of the API server.
	Endpoint string `mapstructure:"endpoint"`
	// Certificate authority data in base64.
	CertificateAuthority string `mapstructure:"certificate_authority"`
	// Service CIDR, and IP family `ipv4` or `ipv6`.
	ServiceCIDR string `mapstructure:"service_cidr"`
	IPFamily    string `mapstructure:"ip_family"`
	// Authentication mode: `CONFIG_MAP`, `API` or `API_AND_CONFIG_MAP`.
	AuthenticationMode string `mapstructure:"authentication_mode"`
	// VPC and subnets of the cluster.
	VPCID     string   `mapstructure:"vpc_id"`
	SubnetIDs []string `mapstructure:"subnet_ids"`
	// Security group that EKS created, and additional security groups.
	ClusterSecurityGroupID string   `mapstructure:"cluster_security_group_id"`
	SecurityGroupIDs       []string `mapstructure:"security_group_ids"`
}
