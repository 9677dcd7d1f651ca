package cluster

//go:generate go tool packer-sdc mapstructure-to-hcl2 -type Config,Output

import (
	"github.com/hashicorp/packer-plugin-sdk/common"

	"github.com/eksnode/packer-plugin-eksnode/plugin/access"
)

// Config is the fields of a `data "eksnode-cluster"` block.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	access.Config       `mapstructure:",squash"`

	// The cluster's name.
	Name string `mapstructure:"name" required:"true"`
}

// Output is what the data source tells.
type Output struct {
	// The cluster's name and ARN.
	Name string `mapstructure:"name"`
	ARN  string `mapstructure:"arn"`
	// The control plane's version, such as `1.34`.
	Version string `mapstructure:"version"`
	// The API server's address.
	Endpoint string `mapstructure:"endpoint"`
	// The certificate authority, in base64.
	CertificateAuthority string `mapstructure:"certificate_authority"`
	// The services' network, and `ipv4` or `ipv6`.
	ServiceCIDR string `mapstructure:"service_cidr"`
	IPFamily    string `mapstructure:"ip_family"`
	// `CONFIG_MAP`, `API` or `API_AND_CONFIG_MAP`.
	AuthenticationMode string `mapstructure:"authentication_mode"`
	// Where the cluster is.
	VPCID     string   `mapstructure:"vpc_id"`
	SubnetIDs []string `mapstructure:"subnet_ids"`
	// The security group that EKS made, and those given besides.
	ClusterSecurityGroupID string   `mapstructure:"cluster_security_group_id"`
	SecurityGroupIDs       []string `mapstructure:"security_group_ids"`
}
