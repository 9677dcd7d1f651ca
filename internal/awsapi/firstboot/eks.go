package firstboot

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

func (n *Node) eks(region string) *eks.Client {
	return eks.NewFromConfig(n.config, func(o *eks.Options) {
		o.Region, o.EndpointResolverV2 = n.in(region), eksEndpoints{eks.NewDefaultEndpointResolverV2(), n}
	})
}

// eksEndpoints are like ec2Endpoints.
type eksEndpoints struct {
	eks.EndpointResolverV2
	node *Node
}

func (e eksEndpoints) ResolveEndpoint(ctx context.Context, p eks.EndpointParameters) (smithyendpoints.Endpoint, error) {
	if e.node.isDualStack.Load() && p.Endpoint == nil && !aws.ToBool(p.UseFIPS) {
		other := p
		other.UseDualStack = aws.Bool(true)
		if endpoint, err := e.EndpointResolverV2.ResolveEndpoint(ctx, other); err == nil {
			return endpoint, nil
		}
	}
	return e.EndpointResolverV2.ResolveEndpoint(ctx, p)
}

// Cluster is a node's data about its cluster.
type Cluster struct {
	// ID identifies a local cluster on an Outpost.
	ID, Endpoint string
	// CA is PEM.
	CA                           []byte
	IPv4CIDR, IPv6CIDR, IPFamily string
	Outpost                      bool
}

// DescribeCluster describes a cluster. While the cluster is being created, it tries
// again until ctx ends. attempts is the maximum number of attempts for each
// request.
func (n *Node) DescribeCluster(ctx context.Context, region, name string, attempts int) (Cluster, error) {
	if err := n.credentials(ctx); err != nil {
		return Cluster{}, err
	}
	for wait := 2 * n.pause; ; wait = min(2*wait, 30*time.Second) {
		out, err := n.eks(region).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)}, func(o *eks.Options) { o.RetryMaxAttempts = attempts })
		if err != nil {
			return Cluster{}, explain(ctx, err)
		}
		if out.Cluster == nil {
			return Cluster{}, errors.New("EKS's response has no cluster")
		}
		switch status := out.Cluster.Status; status {
		case types.ClusterStatusActive, types.ClusterStatusUpdating:
			return clusterOf(out.Cluster)
		case types.ClusterStatusCreating, types.ClusterStatusPending:
			if err := pause(ctx, wait); err != nil {
				return Cluster{}, fmt.Errorf("the cluster is still %s: %w", status, err)
			}
		default:
			return Cluster{}, fmt.Errorf("the cluster is %s", status)
		}
	}
}

func clusterOf(in *types.Cluster) (Cluster, error) {
	c := Cluster{ID: aws.ToString(in.Id), Endpoint: aws.ToString(in.Endpoint)}
	if n := in.KubernetesNetworkConfig; n != nil {
		c.IPv4CIDR, c.IPv6CIDR, c.IPFamily = aws.ToString(n.ServiceIpv4Cidr), aws.ToString(n.ServiceIpv6Cidr), string(n.IpFamily)
	}
	c.Outpost = in.OutpostConfig != nil && len(in.OutpostConfig.OutpostArns) > 0
	if in.CertificateAuthority == nil || aws.ToString(in.CertificateAuthority.Data) == "" || c.Endpoint == "" {
		return Cluster{}, errors.New("EKS's response has no endpoint or no certificate authority")
	}
	var err error
	if c.CA, err = base64.StdEncoding.DecodeString(*in.CertificateAuthority.Data); err != nil {
		return Cluster{}, fmt.Errorf("reading the certificate authority: %w", err)
	}
	return c, nil
}
