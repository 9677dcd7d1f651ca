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

// api adapts firstboot.Node to bootstrap.AWS.
type api struct{ *firstboot.Node }

// awsFor returns a function that makes the AWS clients. The clients use the
// instance's role unless the environment contains other credentials.
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

// adopt sets the variables for the connection to AWS, such as proxies, in the
// environment of this process. The SDK and the kubelet's credential provider read
// them there. Amazon's nodeadm does the same.
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
	c, err := a.Node.DescribeCluster(ctx, region, name, describeAttempts(attempts))
	return bootstrap.Described{
		Endpoint: c.Endpoint, CA: c.CA, IPv4CIDR: c.IPv4CIDR, IPv6CIDR: c.IPv6CIDR, IPFamily: c.IPFamily, Outpost: c.Outpost, ID: c.ID,
	}, err
}

// describeAttempts is the number of attempts in which DescribeCluster takes as long as
// Amazon Linux 2's script with a number of retries: it pauses for 10 s, 20 s, 40 s and
// so on; firstboot's pauses are 10 s from the sixth.
func describeAttempts(retries int) int {
	if retries == 0 {
		return 1
	}
	seconds := 10 * (1<<min(retries, 6) - 1)
	return max(retries+1, 7+(seconds-15)/10)
}
