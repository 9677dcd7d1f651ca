package firstboot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyendpoints "github.com/aws/smithy-go/endpoints"
)

// namePatience bounds the wait for the instance's private DNS name. Amazon's
// nodeadm waits as long (amazon-eks-ami #2436).
const namePatience = 10 * time.Minute

func (n *Node) ec2(region string) *ec2.Client {
	return ec2.NewFromConfig(n.config, func(o *ec2.Options) {
		o.Region, o.EndpointResolverV2 = n.in(region), ec2Endpoints{ec2.NewDefaultEndpointResolverV2(), n}
	})
}

// ec2Endpoints are the SDK's, and those with IPv6 addresses where the usual ones
// could not be reached and nothing else is configured.
type ec2Endpoints struct {
	ec2.EndpointResolverV2
	node *Node
}

// ResolveEndpoint implements ec2.EndpointResolverV2.
func (e ec2Endpoints) ResolveEndpoint(ctx context.Context, p ec2.EndpointParameters) (smithyendpoints.Endpoint, error) {
	if e.node.isDualStack.Load() && p.Endpoint == nil && !aws.ToBool(p.UseFIPS) {
		other := p
		other.UseDualStack = aws.Bool(true)
		if endpoint, err := e.EndpointResolverV2.ResolveEndpoint(ctx, other); err == nil {
			return endpoint, nil
		}
	}
	return e.EndpointResolverV2.ResolveEndpoint(ctx, p)
}

// PrivateDNSName is the instance's private DNS name. A young instance has none
// for some seconds, and EC2 may be slow, out of reach or throttle for minutes:
// every attempt without an answer is logged. With AWS_MAX_ATTEMPTS a request
// that fails as often is an error at once.
func (n *Node) PrivateDNSName(ctx context.Context, region, instanceID string) (string, error) {
	if err := n.credentials(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, n.namePatience, fmt.Errorf("EC2 names no private DNS name within %s; enableDnsSupport must be on in the instance's VPC", n.namePatience))
	defer cancel()
	for wait := n.pause; ; wait = min(2*wait, n.longest) {
		name, err := n.privateDNSName(ctx, region, instanceID)
		if err == nil && name != "" {
			return name, nil
		}
		if err != nil && (ctx.Err() != nil || !n.passes(err)) {
			return "", explain(ctx, err)
		}
		why := "EC2 has none yet"
		if err != nil {
			why = err.Error()
		}
		n.Log(fmt.Sprintf("waiting for the instance's private DNS name, for %s so far and %s at most: %s", time.Since(began).Round(time.Second), n.namePatience, why))
		if stopped := pause(ctx, wait); stopped != nil {
			if err != nil {
				return "", explain(ctx, err)
			}
			return "", stopped
		}
	}
}

func (n *Node) privateDNSName(ctx context.Context, region, instanceID string) (string, error) {
	out, err := n.ec2(region).DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instanceID}}, func(o *ec2.Options) {
		if !n.hasLimit {
			o.Retryer = n.retryer(1) // the loop above tries again, and logs it
		}
	})
	if err != nil {
		return "", err
	}
	if len(out.Reservations) != 1 || len(out.Reservations[0].Instances) != 1 {
		return "", fmt.Errorf("EC2's answer has no instance %s", instanceID)
	}
	return aws.ToString(out.Reservations[0].Instances[0].PrivateDnsName), nil
}

// passes says whether the same request may succeed later.
func (n *Node) passes(err error) bool {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "InvalidInstanceID.NotFound" {
		return true // EC2 does not know a young instance everywhere
	}
	return !n.hasLimit && (isTransient(err) == aws.TrueTernary || retry.NewStandard().IsErrorRetryable(err))
}

// Limits are how many network interfaces the default card of an instance type
// takes, how many IPv4 addresses each of them, and how large the type is.
type Limits struct{ ENIs, IPsPerENI, VCPUs, MemoryMiB int }

// InstanceLimits asks EC2 about an instance type.
func (n *Node) InstanceLimits(ctx context.Context, region, instanceType string) (Limits, error) {
	if err := n.credentials(ctx); err != nil {
		return Limits{}, err
	}
	out, err := n.ec2(region).DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{types.InstanceType(instanceType)}})
	if err != nil {
		return Limits{}, explain(ctx, err)
	}
	if len(out.InstanceTypes) != 1 {
		return Limits{}, fmt.Errorf("EC2 says nothing about %s", instanceType)
	}
	return limitsOf(out.InstanceTypes[0])
}

func limitsOf(in types.InstanceTypeInfo) (Limits, error) {
	var l Limits
	if in.VCpuInfo != nil && in.MemoryInfo != nil {
		l.VCPUs, l.MemoryMiB = int(aws.ToInt32(in.VCpuInfo.DefaultVCpus)), int(aws.ToInt64(in.MemoryInfo.SizeInMiB))
	}
	if network := in.NetworkInfo; network != nil {
		l.ENIs, l.IPsPerENI = int(aws.ToInt32(network.MaximumNetworkInterfaces)), int(aws.ToInt32(network.Ipv4AddressesPerInterface))
		for _, card := range network.NetworkCards {
			if aws.ToInt32(card.NetworkCardIndex) == aws.ToInt32(network.DefaultNetworkCardIndex) {
				l.ENIs = int(aws.ToInt32(card.MaximumNetworkInterfaces))
			}
		}
	}
	if l.ENIs < 1 || l.IPsPerENI < 1 {
		return Limits{}, errors.New("EC2's answer has no network limits")
	}
	return l, nil
}
