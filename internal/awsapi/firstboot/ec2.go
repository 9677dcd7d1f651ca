package firstboot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// namePatience bounds the wait for the instance's private DNS name. Amazon's
// nodeadm waits as long (amazon-eks-ami #2436).
const namePatience = 10 * time.Minute

func (n *Node) ec2(region string) *ec2.Client {
	return ec2.NewFromConfig(n.config, func(o *ec2.Options) {
		o.Region, o.EndpointResolverV2 = n.in(region), endpoints[ec2.EndpointParameters]{
			node: n, from: ec2.NewDefaultEndpointResolverV2(),
			dualStack: func(p ec2.EndpointParameters) (ec2.EndpointParameters, bool) {
				p.UseDualStack = aws.Bool(true)
				return p, p.Endpoint == nil && !aws.ToBool(p.UseFIPS)
			},
		}
	})
}

// PrivateDNSName returns the instance's private DNS name. A new instance has none
// for some seconds, and EC2 may be slow, throttled or out of reach for minutes.
// PrivateDNSName logs every attempt that fails. With AWS_MAX_ATTEMPTS, it returns
// an error after that number of failed requests.
func (n *Node) PrivateDNSName(ctx context.Context, region, instanceID string) (string, error) {
	if err := n.credentials(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, n.namePatience,
		fmt.Errorf("EC2 returned no private DNS name within %s; enableDnsSupport must be on in the instance's VPC",
			n.namePatience))
	defer cancel()
	for wait := n.pause; ; wait = min(2*wait, n.longest) {
		name, err := n.privateDNSName(ctx, region, instanceID)
		if err == nil && name != "" {
			return name, nil
		}
		if err != nil && (ctx.Err() != nil || !n.passes(err)) {
			return "", explain(ctx, err)
		}
		why := "EC2 has not assigned a name yet"
		if err != nil {
			why = err.Error()
		}
		n.Log(fmt.Sprintf("waiting for the instance's private DNS name, for %s so far and %s at most: %s",
			time.Since(began).Round(time.Second), n.namePatience, why))
		if stopped := pause(ctx, wait); stopped != nil {
			if err != nil {
				return "", explain(ctx, err)
			}
			return "", stopped
		}
	}
}

func (n *Node) privateDNSName(ctx context.Context, region, instanceID string) (string, error) {
	out, err := n.ec2(region).DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instanceID}},
		func(o *ec2.Options) {
			if !n.hasLimit {
				o.Retryer = n.retryer(1) // the loop above tries again, and logs it
			}
		})
	if err != nil {
		return "", err
	}
	if len(out.Reservations) != 1 || len(out.Reservations[0].Instances) != 1 {
		return "", fmt.Errorf("EC2's response has no instance %s", instanceID)
	}
	return aws.ToString(out.Reservations[0].Instances[0].PrivateDnsName), nil
}

// passes reports whether the same request may succeed later.
func (n *Node) passes(err error) bool {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "InvalidInstanceID.NotFound" {
		return true // EC2 may not list a new instance everywhere yet
	}
	return !n.hasLimit && (isTransient(err) == aws.TrueTernary || retry.NewStandard().IsErrorRetryable(err))
}

// Limits are the limits of an instance type: network interfaces of the default
// card, IPv4 addresses of each interface, vCPUs and memory.
type Limits struct{ ENIs, IPsPerENI, VCPUs, MemoryMiB int }

// InstanceLimits returns the limits of an instance type from EC2.
func (n *Node) InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error) {
	if err := n.credentials(ctx); err != nil {
		return Limits{}, err
	}
	out, err := n.ec2(region).DescribeInstanceTypes(ctx,
		&ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)}})
	if err != nil {
		return Limits{}, explain(ctx, err)
	}
	if len(out.InstanceTypes) != 1 {
		return Limits{}, fmt.Errorf("EC2's response lacks the instance type %s", instanceType)
	}
	return limitsOf(out.InstanceTypes[0])
}

func limitsOf(in types.InstanceTypeInfo) (Limits, error) {
	var l Limits
	if in.VCpuInfo != nil && in.MemoryInfo != nil {
		l.VCPUs, l.MemoryMiB = int(aws.ToInt32(in.VCpuInfo.DefaultVCpus)), int(aws.ToInt64(in.MemoryInfo.SizeInMiB))
	}
	if network := in.NetworkInfo; network != nil {
		l.ENIs, l.IPsPerENI = int(aws.ToInt32(network.MaximumNetworkInterfaces)),
			int(aws.ToInt32(network.Ipv4AddressesPerInterface))
		for _, card := range network.NetworkCards {
			if aws.ToInt32(card.NetworkCardIndex) == aws.ToInt32(network.DefaultNetworkCardIndex) {
				l.ENIs = int(aws.ToInt32(card.MaximumNetworkInterfaces))
			}
		}
	}
	if l.ENIs < 1 || l.IPsPerENI < 1 {
		return Limits{}, errors.New("EC2's response has no network limits")
	}
	return l, nil
}

// roleMetadata reads the credentials of the instance's role. They appear some
// seconds after the instance starts, so it retries after a missing entry.
type roleMetadata struct{ *Metadata }

func (r roleMetadata) GetMetadata(ctx context.Context, in *imds.GetMetadataInput,
	options ...func(*imds.Options)) (*imds.GetMetadataOutput, error) {
	return r.client.GetMetadata(ctx, in, append(options, func(o *imds.Options) {
		o.Retryer = r.retryer(func(err error) bool { return isMissing(err) || isMetadataRetryable(err) })
	})...)
}

// credentials gets the credentials for the following requests. It retries when the
// role cannot be assumed yet.
func (n *Node) credentials(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		_, err := n.config.Credentials.Retrieve(ctx)
		var refused *smithy.GenericAPIError
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("getting the node's credentials: %w (last: %w)", context.Cause(ctx), err)
		case !errors.As(err, &refused) || attempt >= n.metadata.Attempts:
			return fmt.Errorf("getting the node's credentials: %w; the instance needs an instance profile with the "+
				"node's role", err)
		}
		tell(n.Log, attempt, n.metadata.Attempts, "the role's credentials", refused)
		if err := pause(ctx, min(firstPause<<min(attempt-1, 5), n.metadata.longest)); err != nil {
			return fmt.Errorf("getting the node's credentials: %w (last: %w)", err, refused)
		}
	}
}

// bounded makes an SDK client fail on a response of more than most bytes, because
// the clients read whole responses into memory.
func bounded(most int64) func(*middleware.Stack) error {
	read := func(ctx context.Context, in middleware.DeserializeInput,
		next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleDeserialize(ctx, in)
		if r, ok := out.RawResponse.(*smithyhttp.Response); ok && r.Body != nil {
			r.Body = &boundedBody{ReadCloser: r.Body, most: most, left: most}
		}
		return out, metadata, err
	}
	return func(stack *middleware.Stack) error {
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("Bounded", read), middleware.After)
	}
}

// boundedBody fails when it would return more bytes than allowed.
type boundedBody struct {
	io.ReadCloser
	most, left int64
}

func (b *boundedBody) Read(into []byte) (int, error) {
	if int64(len(into)) > b.left+1 {
		into = into[:b.left+1]
	}
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", b.most)
	}
	return n, err
}
