package firstboot

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/smithy-go"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"golang.org/x/net/http/httpproxy"
)

const (
	// maxAnswer bounds an answer, in bytes.
	maxAnswer = 4 << 20
	// answerTimeout bounds each attempt.
	answerTimeout = 30 * time.Second
	// nodeAttempts is the maximum number of attempts without AWS_MAX_ATTEMPTS, except at
	// boot.
	nodeAttempts = 6
)

// Node makes a node's calls to AWS. Endpoints, proxies, certificates and
// credentials come from the SDK's settings. Without configured credentials it uses
// those of the instance's role.
type Node struct {
	// Log receives single lines for the journal.
	Log func(string)

	config   aws.Config
	metadata *Metadata
	// pause is the pause before the second attempt. It doubles up to longest.
	pause, longest time.Duration
	// isDualStack says that the default endpoint could not be reached, so that the
	// endpoint with IPv6 addresses is next.
	isDualStack atomic.Bool
	// namePatience bounds the wait for the private DNS name.
	namePatience time.Duration
	// hasLimit says that AWS_MAX_ATTEMPTS, or the profile, bounds the attempts.
	hasLimit bool
}

// OpenNode reads the configuration and sends no request.
func OpenNode(ctx context.Context, m *Metadata) (*Node, error) {
	n := &Node{metadata: m, pause: 500 * time.Millisecond, longest: 10 * time.Second, namePatience: namePatience,
		Log: func(string) {}}
	proxy := httpproxy.FromEnvironment().ProxyFunc()
	client := awshttp.NewBuildableClient().WithTimeout(answerTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	})
	c, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client), config.WithLogger(logging.Nop{}),
		config.WithAPIOptions([]func(*middleware.Stack) error{bounded(maxAnswer)}),
		config.WithEC2RoleCredentialOptions(func(o *ec2rolecreds.Options) { o.Client = roleMetadata{m} }))
	if err != nil {
		return nil, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	n.hasLimit = c.RetryMaxAttempts > 0
	attempts := cmp.Or(c.RetryMaxAttempts, m.apiAttempts)
	c.RetryMaxAttempts, c.Retryer = 0, func() aws.Retryer { return n.retryer(attempts) }
	n.config = c
	return n, nil
}

// in is the region to call: the configured one, or the instance's.
func (n *Node) in(region string) string { return cmp.Or(n.config.Region, region) }

// Region is the configured region, or empty.
func (n *Node) Region() string { return n.config.Region }

// retryer retries for as long as a booting instance needs.
func (n *Node) retryer(attempts int) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.RateLimiter = attempts, ratelimit.None
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(n.isRetryable)}, o.Retryables...)
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			tell(n.Log, attempt, o.MaxAttempts, "AWS", err)
			return min(n.pause<<min(attempt-1, 8), n.longest), nil
		})
	})
}

// isRetryable records which endpoint could not be reached, and extends the SDK's
// list of retryable errors.
func (n *Node) isRetryable(err error) aws.Ternary {
	if errors.As(err, new(*smithyhttp.RequestSendError)) {
		n.isDualStack.Store(!n.isDualStack.Load())
	}
	return isTransient(err)
}

// isTransient also retries when a name does not resolve: DNS may work once the
// network is up.
func isTransient(err error) aws.Ternary {
	var answer *smithyhttp.ResponseError
	switch {
	case errors.As(err, new(*smithyhttp.RequestSendError)):
		return aws.TrueTernary
	case errors.As(err, &answer) && (answer.HTTPStatusCode() >= 500 ||
		answer.HTTPStatusCode() == http.StatusTooManyRequests):
		return aws.TrueTernary
	default:
		return aws.UnknownTernary
	}
}

// explain adds to an error what to check.
func explain(ctx context.Context, err error) error {
	var api smithy.APIError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
	case errors.As(err, new(*net.DNSError)):
		return fmt.Errorf("%w; the node needs a DNS server that resolves this name", err)
	case errors.As(err, new(*smithyhttp.RequestSendError)):
		return fmt.Errorf("%w; the node needs a route to this address: a NAT gateway, an endpoint in its "+
			"VPC or a proxy", err)
	case !errors.As(err, &api):
		return err
	case strings.Contains(api.ErrorCode(), "Unauthorized"), strings.Contains(api.ErrorCode(), "AccessDenied"):
		return fmt.Errorf("%w; the node's role needs the policy AmazonEKSWorkerNodePolicy", err)
	case strings.Contains(api.ErrorCode(), "NotFound"):
		return fmt.Errorf("%w; check the name and the region", err)
	case api.ErrorCode() == "AuthFailure", api.ErrorCode() == "RequestExpired",
		strings.Contains(api.ErrorCode(), "Signature"):
		return fmt.Errorf("%w; check the machine's clock", err)
	default:
		return err
	}
}

// pause waits, or returns the reason not to.
func pause(ctx context.Context, wait time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

func (n *Node) eks(region string) *eks.Client {
	return eks.NewFromConfig(n.config, func(o *eks.Options) {
		o.Region, o.EndpointResolverV2 = n.in(region), endpoints[eks.EndpointParameters]{
			node: n, from: eks.NewDefaultEndpointResolverV2(),
			dualStack: func(p eks.EndpointParameters) (eks.EndpointParameters, bool) {
				p.UseDualStack = aws.Bool(true)
				return p, p.Endpoint == nil && !aws.ToBool(p.UseFIPS)
			},
		}
	})
}

// resolver is the SDK's EndpointResolverV2 of a service.
type resolver[Parameters any] interface {
	ResolveEndpoint(context.Context, Parameters) (smithyendpoints.Endpoint, error)
}

// endpoints are the SDK's endpoints of a service. When those cannot be reached and no
// endpoint is configured, they are the endpoints with IPv6 addresses.
type endpoints[Parameters any] struct {
	node *Node
	from resolver[Parameters]
	// dualStack are the parameters for IPv6, and whether these may be used.
	dualStack func(Parameters) (Parameters, bool)
}

// ResolveEndpoint implements the SDK's EndpointResolverV2.
func (e endpoints[Parameters]) ResolveEndpoint(ctx context.Context, p Parameters) (smithyendpoints.Endpoint, error) {
	if other, may := e.dualStack(p); may && e.node.isDualStack.Load() {
		if endpoint, err := e.from.ResolveEndpoint(ctx, other); err == nil {
			return endpoint, nil
		}
	}
	return e.from.ResolveEndpoint(ctx, p)
}

// Cluster is a node's data about its cluster.
type Cluster struct {
	Endpoint string
	// CA is PEM.
	CA                           []byte
	IPv4CIDR, IPv6CIDR, IPFamily string
	// Outpost says that the cluster is a local one on an Outpost, identified by ID.
	Outpost bool
	ID      string
}

// DescribeCluster describes a cluster. While the cluster is being created, it tries
// again until ctx ends. attempts is the maximum number of attempts for each
// request.
func (n *Node) DescribeCluster(ctx context.Context, region, name string, attempts int) (Cluster, error) {
	if err := n.credentials(ctx); err != nil {
		return Cluster{}, err
	}
	for wait := 2 * n.pause; ; wait = min(2*wait, 30*time.Second) {
		out, err := n.eks(region).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: aws.String(name)},
			func(o *eks.Options) { o.RetryMaxAttempts = attempts })
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
		c.IPv4CIDR, c.IPv6CIDR, c.IPFamily = aws.ToString(n.ServiceIpv4Cidr), aws.ToString(n.ServiceIpv6Cidr),
			string(n.IpFamily)
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
