package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// api is the node's way to AWS: bootstrap's questions, AWS's answers.
type api struct{ *firstboot.Node }

// awsFor makes clients with the credentials of the instance's role where the
// environment has no others.
func awsFor(service *firstboot.Metadata, log func(string)) func(context.Context, map[string]string) (bootstrap.AWS, error) {
	return func(ctx context.Context, environment map[string]string) (bootstrap.AWS, error) {
		if err := adopt(environment); err != nil {
			return nil, err
		}
		n, err := firstboot.OpenNode(ctx, service)
		if err != nil {
			return nil, err
		}
		n.Log = log
		return api{n}, nil
	}
}

// adopt makes those variables that decide how AWS is reached this process's
// own: the SDK and the kubelet's credential provider read them there, and
// Amazon's nodeadm does the same.
func adopt(environment map[string]string) error {
	others := []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	for name, value := range environment {
		if !strings.HasPrefix(name, "AWS_") && !slices.Contains(others, strings.ToUpper(name)) {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("setting spec.instance.environment.default.%s: %w", name, err)
		}
	}
	return nil
}

// InstanceLimits implements bootstrap.AWS.
func (a api) InstanceLimits(ctx context.Context, region, instanceType string) (bootstrap.Limits, error) {
	l, err := a.Node.InstanceLimits(ctx, region, instanceType)
	return bootstrap.Limits{ENIs: l.ENIs, IPsPerENI: l.IPsPerENI, VCPUs: l.VCPUs, MemoryMiB: l.MemoryMiB}, err
}

// DescribeCluster implements bootstrap.AWS.
func (a api) DescribeCluster(ctx context.Context, region, name string, attempts int) (bootstrap.Described, error) {
	c, err := a.Node.DescribeCluster(ctx, region, name, attempts+1)
	return bootstrap.Described{
		Endpoint: c.Endpoint, CA: c.CA, IPv4CIDR: c.IPv4CIDR, IPv6CIDR: c.IPv6CIDR, IPFamily: c.IPFamily, Outpost: c.Outpost, ID: c.ID,
	}, err
}
