// Package access holds what components share that call AWS: fields, and the progress of
// transfers.
package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Config holds the AWS fields of a block. Missing fields have the defaults of the
// AWS CLI.
type Config struct {
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
	MaxAttempts int `mapstructure:"max_attempts"`
}

// Prepare validates the fields.
func (c *Config) Prepare() error {
	var errs []error
	if c.MaxAttempts < 0 || c.MaxAttempts > 100 {
		errs = append(errs, fmt.Errorf("max_attempts: %d must be from 1 to 100", c.MaxAttempts))
	}
	if c.ExternalID != "" && c.AssumeRole == "" {
		errs = append(errs, errors.New("external_id has no effect without assume_role"))
	}
	return errors.Join(append(errs, c.Options().Validate())...)
}

// Open returns a client for AWS.
func (c *Config) Open(ctx context.Context) (*awsapi.AWS, error) {
	return awsapi.Open(ctx, c.Options())
}

// Options are the fields that are known already.
func (c *Config) Options() awsapi.Options {
	return awsapi.Options{
		Region: validate.Known(c.Region), Profile: validate.Known(c.Profile), AssumeRole: validate.Known(c.AssumeRole),
		ExternalID: validate.Known(c.ExternalID), Endpoint: validate.Known(c.Endpoint), Attempts: c.MaxAttempts,
	}
}
