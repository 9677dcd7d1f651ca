package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/imds"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/node"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/nodeapi"
)

// api is the node's way to AWS: bootstrap's questions, nodeapi's answers.
type api struct {
	service   *imds.Client
	transport http.RoundTripper
	creds     *imds.Credentials
}

// awsFor makes clients with the credentials of the instance's role.
func awsFor(service *imds.Client) func(map[string]string) bootstrap.AWS {
	return func(environment map[string]string) bootstrap.AWS {
		return &api{service: service, transport: transport(environment)}
	}
}

// transport uses the proxies that the node's services get, or this program's
// own when they get none.
func transport(environment map[string]string) http.RoundTripper {
	get := func(upper, lower string) string {
		if v := environment[upper]; v != "" {
			return v
		}
		return environment[lower]
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	config := httpproxy.Config{
		HTTPProxy: get("HTTP_PROXY", "http_proxy"), HTTPSProxy: get("HTTPS_PROXY", "https_proxy"), NoProxy: get("NO_PROXY", "no_proxy"),
	}
	if config.HTTPProxy+config.HTTPSProxy != "" {
		proxy := config.ProxyFunc()
		t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	}
	return t
}

func (a *api) client(region string) *nodeapi.Client {
	return nodeapi.New(region, a.credentials, a.transport)
}

// credentials are asked for once; they are good for hours.
func (a *api) credentials(ctx context.Context) (nodeapi.Credentials, error) {
	if a.creds == nil || time.Until(a.creds.Expiration) < time.Minute {
		creds, err := a.service.Credentials(ctx)
		if err != nil {
			return nodeapi.Credentials{}, err
		}
		a.creds = &creds
	}
	return nodeapi.Credentials{AccessKeyID: a.creds.AccessKeyID, SecretAccessKey: a.creds.SecretAccessKey, Token: a.creds.Token}, nil
}

// PrivateDNSName implements instance.EC2.
func (a *api) PrivateDNSName(ctx context.Context, region, instanceID string) (string, error) {
	return a.client(region).PrivateDNSName(ctx, instanceID)
}

// InstanceLimits implements instance.EC2.
func (a *api) InstanceLimits(ctx context.Context, region, instanceType string) (instance.Limits, error) {
	l, err := a.client(region).InstanceLimits(ctx, instanceType)
	return instance.Limits{ENIs: l.ENIs, IPsPerENI: l.IPsPerENI, VCPUs: l.VCPUs, MemoryMiB: l.MemoryMiB}, err
}

// DescribeCluster implements bootstrap.AWS.
func (a *api) DescribeCluster(ctx context.Context, region, name string, attempts int) (node.Described, error) {
	client := a.client(region)
	client.Attempts = attempts + 1
	c, err := client.DescribeCluster(ctx, name)
	return node.Described{
		Endpoint: c.Endpoint, CA: c.CA, IPv4CIDR: c.IPv4CIDR, IPv6CIDR: c.IPv6CIDR, IPFamily: c.IPFamily, Outpost: c.Outpost, ID: c.ID,
	}, err
}
