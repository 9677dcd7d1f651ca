// Package awsapi is what AWS knows: clusters, images, instances, roles and
// networks, asked with the SDK. Nothing of it runs on a node; package firstboot
// below it is what a node asks.
package awsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Options say how AWS is reached. What is empty comes from where the AWS CLI
// takes it: environment, shared configuration, instance metadata.
type Options struct {
	Region, Profile string
	// AssumeRole is the ARN of a role that is taken on before anything is asked.
	AssumeRole string
	// ExternalID is what the role's trust policy may demand.
	ExternalID string
	// Endpoint is the address of every service; empty means AWS's own.
	Endpoint string
	// Attempts is how often a call is sent at most; 0 means what the environment
	// or the profile says, or 6.
	Attempts int
	// Pause is the longest pause between two attempts; 0 means 20 seconds.
	Pause time.Duration
	// Settle is the pause before something that AWS does not know is asked for
	// again: what was just made is not known everywhere at once. 0 means 2 seconds.
	Settle time.Duration
	// HTTP sends the requests; nil means the SDK's own.
	HTTP *http.Client
}

// AWS asks AWS in one region.
type AWS struct {
	Region string
	settle time.Duration

	autoscaling *autoscaling.Client
	ec2         *ec2.Client
	eks         *eks.Client
	iam         *iam.Client
	ssm         *ssm.Client
	sts         *sts.Client
}

// Open reads the configuration and gets credentials: without any, nothing that
// follows could succeed.
func Open(ctx context.Context, o Options) (*AWS, error) {
	c, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	settle := o.Settle
	if settle == 0 {
		settle = 2 * time.Second
	}
	return &AWS{
		Region: c.Region, settle: settle, ec2: ec2.NewFromConfig(c), eks: eks.NewFromConfig(c), iam: iam.NewFromConfig(c),
		ssm: ssm.NewFromConfig(c), sts: sts.NewFromConfig(c), autoscaling: autoscaling.NewFromConfig(c),
	}, nil
}

// config is the SDK's configuration, with credentials that could be had.
func (o Options) config(ctx context.Context) (aws.Config, error) {
	if o.Endpoint != "" {
		if u, err := url.Parse(o.Endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return aws.Config{}, fmt.Errorf("endpoint: %q is no address such as https://vpce-1.eks.eu-west-1.vpce.amazonaws.com", o.Endpoint)
		}
	}
	var load []func(*config.LoadOptions) error
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.HTTP != nil {
		load = append(load, config.WithHTTPClient(o.HTTP))
	}
	if o.Endpoint != "" {
		load = append(load, config.WithBaseEndpoint(o.Endpoint))
	}
	var profileRole roleClient
	load = append(load, config.WithAssumeRoleCredentialOptions(profileRole.wrap))
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return c, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	profileRole.endpoint = sts.NewFromConfig(c).Options().BaseEndpoint
	o.Attempts = cmp.Or(o.Attempts, c.RetryMaxAttempts, 6)
	c.Retryer, c.RetryMaxAttempts = o.retryer, 0
	if c.Region == "" {
		return c, errors.New("region: none is set; name it, set AWS_REGION, or set it in the profile")
	}
	if o.AssumeRole != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(c), o.AssumeRole, func(a *stscreds.AssumeRoleOptions) {
			a.RoleSessionName = "eksnode"
			if o.ExternalID != "" {
				a.ExternalID = aws.String(o.ExternalID)
			}
		})
		c.Credentials = aws.NewCredentialsCache(role)
	}
	return c, credentials(ctx, c, o.AssumeRole)
}

// roleClient takes on the role that a profile names. The SDK makes the client for
// that before it knows which endpoints are configured.
type roleClient struct{ endpoint *string }

func (r *roleClient) wrap(o *stscreds.AssumeRoleOptions) {
	inner := o.Client
	o.Client = assumeRole(func(ctx context.Context, in *sts.AssumeRoleInput, options ...func(*sts.Options)) (*sts.AssumeRoleOutput, error) {
		return inner.AssumeRole(ctx, in, append(options, func(s *sts.Options) {
			if r.endpoint != nil {
				s.BaseEndpoint = r.endpoint
			}
		})...)
	})
}

// assumeRole implements stscreds.AssumeRoleAPIClient.
type assumeRole func(context.Context, *sts.AssumeRoleInput, ...func(*sts.Options)) (*sts.AssumeRoleOutput, error)

// AssumeRole implements stscreds.AssumeRoleAPIClient.
func (a assumeRole) AssumeRole(ctx context.Context, in *sts.AssumeRoleInput, options ...func(*sts.Options)) (*sts.AssumeRoleOutput, error) {
	return a(ctx, in, options...)
}

// credentials says why there are none. They are kept for the calls.
func credentials(ctx context.Context, c aws.Config, role string) error {
	_, err := c.Credentials.Retrieve(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case role != "":
		return explain("taking on the role "+role, err)
	}
	var api smithy.APIError
	if errors.As(err, &api) { // the profile names a role, or an SSO session that AWS has ended
		return explain("credentials", err)
	}
	return fmt.Errorf("credentials: none could be had; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile, or log in with `aws sso login`: %w", err)
}

func (o Options) retryer() aws.Retryer {
	return retry.NewStandard(func(s *retry.StandardOptions) {
		s.MaxAttempts = o.Attempts
		if o.Pause > 0 {
			s.MaxBackoff = o.Pause
			s.Backoff = retry.NewExponentialJitterBackoff(o.Pause)
		}
	})
}

// looks is how often something that AWS does not know is asked for.
const looks = 3

// settled looks again for what AWS does not know yet.
func (a *AWS) settled(ctx context.Context, look func() error) error {
	for n := 1; ; n++ {
		err := look()
		if !IsNotFound(err) || n == looks {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(a.settle):
		}
	}
}
