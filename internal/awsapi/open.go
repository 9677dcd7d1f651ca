// Package awsapi reads clusters, images, instances, roles and networks from AWS
// through the SDK. It does not run on nodes; a node uses the package firstboot.
package awsapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/freetier"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/route53"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/logging"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// Options say how to reach AWS. Empty fields come from the sources that the AWS CLI
// uses: environment, shared configuration, instance metadata.
type Options struct {
	// AWS region. Defaults to the region of the environment or the profile.
	Region string `mapstructure:"region"`
	// Profile in the shared AWS configuration.
	Profile string `mapstructure:"profile"`
	// ARN of the IAM role to assume.
	AssumeRole string `mapstructure:"assume_role"`
	// External ID that the trust policy of the role requires.
	ExternalID string `mapstructure:"external_id"`
	// URL of all AWS services, for private endpoints. Defaults to
	// `AWS_ENDPOINT_URL`, or the endpoints of AWS.
	Endpoint string `mapstructure:"endpoint"`
	// Maximum number of attempts per call when AWS throttles or fails. Defaults to
	// `AWS_MAX_ATTEMPTS`, or the profile's value, or 6.
	Attempts int `mapstructure:"max_attempts"`
	// Pause is the longest pause between two attempts; 0 means 20 seconds.
	Pause time.Duration `mapstructure:"-"`
	// Settle is the first pause before another lookup of a resource that AWS does not
	// find: a new resource is not visible everywhere at once. 0 means 2 seconds.
	Settle time.Duration `mapstructure:"-"`
	// Stall is how long a server may send nothing before the call fails; 0 means
	// 2 minutes for blocks of snapshots, and 1 minute for other calls.
	Stall time.Duration `mapstructure:"-"`
	// HTTP sends the requests; nil means the SDK's own client.
	HTTP *http.Client `mapstructure:"-"`

	// defaultRegion is the region when no source has one.
	defaultRegion string
}

// AWS calls AWS in one region.
type AWS struct {
	Region string
	settle time.Duration
	// patience is how long a call is repeated for a resource that AWS does not find.
	patience time.Duration
	// config and options are for In.
	config  aws.Config
	options Options

	autoscaling *autoscaling.Client
	ebs         *ebs.Client
	ec2         *ec2.Client
	eks         *eks.Client
	freetier    *freetier.Client
	iam         *iam.Client
	kms         *kms.Client
	quotas      *servicequotas.Client
	route53     *route53.Client
	ssm         *ssm.Client
	sts         *sts.Client
}

// pauses is the context's key of WithPauses.
type pauses struct{}

// WithPauses returns a context in which Pause and Settle have another default. Tests of
// whole commands do not wait for seconds.
func WithPauses(ctx context.Context, pause time.Duration) context.Context {
	return context.WithValue(ctx, pauses{}, pause)
}

// Open reads the configuration and gets credentials. It fails without credentials,
// because every call would fail.
func Open(ctx context.Context, o Options) (*AWS, error) {
	pause, _ := ctx.Value(pauses{}).(time.Duration)
	o.Pause = cmp.Or(o.Pause, pause)
	c, err := o.config(ctx)
	if err != nil {
		return nil, err
	}
	return o.connect(c, cmp.Or(o.Settle, pause, 2*time.Second)), nil
}

// connect makes the clients of a region.
func (o Options) connect(c aws.Config, settle time.Duration) *AWS {
	quick := o.quick(c)
	return &AWS{
		Region: c.Region, settle: settle, patience: 2 * settle, config: c, options: o, ec2: ec2.NewFromConfig(c),
		eks: eks.NewFromConfig(quick), iam: iam.NewFromConfig(quick), ssm: ssm.NewFromConfig(quick),
		sts: sts.NewFromConfig(quick), autoscaling: autoscaling.NewFromConfig(c), kms: kms.NewFromConfig(quick),
		ebs: ebs.NewFromConfig(c, o.blocks), route53: route53.NewFromConfig(quick),
		quotas: servicequotas.NewFromConfig(quick), freetier: freetier.NewFromConfig(quick),
	}
}

// Validate returns the faults of the options, joined.
func (o Options) Validate() error {
	var errs []error
	for _, one := range []struct {
		field surface.Name
		value string
		check func(string) error
	}{
		{"region", o.Region, awsnames.Region.Check}, {"assume_role", o.AssumeRole, awsnames.RoleARN.Check},
		{"endpoint", o.Endpoint, awsnames.Endpoint},
	} {
		if one.value == "" {
			continue
		}
		if err := one.check(one.value); err != nil {
			errs = append(errs, surface.Errorf("%s: %w", one.field, err))
		}
	}
	if o.Attempts < 0 || o.Attempts > 100 {
		errs = append(errs, surface.Errorf("{max_attempts}: %d must be from 1 to 100", o.Attempts))
	}
	if o.ExternalID != "" && o.AssumeRole == "" {
		errs = append(errs, surface.Errorf("{external_id} has no effect without {assume_role}"))
	}
	return errors.Join(errs...)
}

// config is the SDK's configuration, with valid credentials.
func (o Options) config(ctx context.Context) (aws.Config, error) {
	if err := o.Validate(); err != nil {
		return aws.Config{}, err
	}
	// The providers of credentials get this retryer, the services another one below.
	// The SDK's own warnings would stand between the lines for a person.
	var client config.HTTPClient = quickClient().WithReadTimeout(cmp.Or(o.Stall, silence))
	if o.HTTP != nil {
		client = o.HTTP
	}
	var endpoint *string
	c, err := config.LoadDefaultConfig(ctx, config.WithRetryer(Options{Attempts: 3, Pause: time.Second}.retryer),
		config.WithLogger(logging.Nop{}), config.WithRegion(o.Region), config.WithDefaultRegion(o.defaultRegion),
		config.WithSharedConfigProfile(o.Profile), config.WithHTTPClient(client), config.WithBaseEndpoint(o.Endpoint),
		config.WithAssumeRoleCredentialOptions(func(a *stscreds.AssumeRoleOptions) {
			a.Client = roleClient{a.Client, &endpoint}
		}))
	if err != nil {
		return c, fmt.Errorf("reading the AWS configuration: %w", err)
	}
	endpoint = sts.NewFromConfig(c).Options().BaseEndpoint
	o.Attempts = cmp.Or(o.Attempts, configuredAttempts(ctx, c), 6)
	c.Retryer, c.RetryMaxAttempts = o.retryer, 0
	if c.Region == "" {
		return c, surface.Errorf("{region} is missing; also AWS_REGION and the profile set no region")
	}
	if err := awsnames.Region.Check(c.Region); err != nil {
		return c, surface.Errorf("{region}: %w", err)
	}
	if o.AssumeRole != "" {
		role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(o.quick(c)), o.AssumeRole,
			func(a *stscreds.AssumeRoleOptions) {
				a.RoleSessionName, a.ExternalID = "eksnode", Some(o.ExternalID)
			})
		c.Credentials = aws.NewCredentialsCache(role)
	}
	return c, credentials(ctx, c, o.AssumeRole)
}

// configuredAttempts is the maximum number of attempts of the environment or the
// profile, or 0. With a retryer of its own, the SDK does not read the number.
func configuredAttempts(ctx context.Context, c aws.Config) int {
	for _, source := range c.ConfigSources {
		if s, ok := source.(interface {
			GetRetryMaxAttempts(context.Context) (int, bool, error)
		}); ok {
			if n, found, err := s.GetRetryMaxAttempts(ctx); err == nil && found && n > 0 {
				return n
			}
		}
	}
	return 0
}

// roleClient assumes the role that a profile names. The SDK makes this client
// before it knows the configured endpoints.
type roleClient struct {
	stscreds.AssumeRoleAPIClient
	endpoint **string
}

func (r roleClient) AssumeRole(ctx context.Context, in *sts.AssumeRoleInput,
	options ...func(*sts.Options)) (*sts.AssumeRoleOutput, error) {
	return r.AssumeRoleAPIClient.AssumeRole(ctx, in, append(options, func(s *sts.Options) {
		s.BaseEndpoint = cmp.Or(*r.endpoint, s.BaseEndpoint)
	})...)
}

// credentials gets the credentials, or returns the reason why there are none. The
// calls reuse them.
func credentials(ctx context.Context, c aws.Config, role string) error {
	_, err := c.Credentials.Retrieve(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case role != "":
		return explain("assuming the role "+role, err)
	}
	if errors.As(err, new(smithy.APIError)) { // the profile names a role, or an SSO session that has expired
		return explain("credentials", err)
	}
	return fmt.Errorf("credentials: none were found; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a "+
		"profile, or log in with `aws sso login`: %w", unansweredOf(err))
}

func (o Options) retryer() aws.Retryer {
	return retry.NewStandard(func(s *retry.StandardOptions) {
		s.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(noRetry)}, s.Retryables...)
		s.MaxAttempts = o.Attempts
		if o.Pause > 0 {
			s.MaxBackoff = o.Pause
			s.Backoff = retry.NewExponentialJitterBackoff(o.Pause)
		}
	})
}
