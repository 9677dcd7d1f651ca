package cluster

import (
	"github.com/hashicorp/packer-plugin-sdk/common"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

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
	// Kubernetes version of the control plane, such as `1.34`.
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
