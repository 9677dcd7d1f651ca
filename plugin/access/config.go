// Package access is what the components that ask AWS share: how AWS is reached.
package access

import (
	"context"
	"errors"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Config are the fields of every block that asks AWS. What is left out comes
// from where the AWS CLI takes it.
type Config struct {
	// The region that is asked. Defaults to the one of the environment or the
	// profile.
	Region string `mapstructure:"region"`
	// A profile of the shared AWS configuration.
	Profile string `mapstructure:"profile"`
	// The ARN of a role to take on before anything is asked.
	AssumeRole string `mapstructure:"assume_role"`
	// The external ID that the role's trust policy demands.
	ExternalID string `mapstructure:"external_id"`
	// The address of every service, for private endpoints. Defaults to AWS's
	// own, or to what `AWS_ENDPOINT_URL` says.
	Endpoint string `mapstructure:"endpoint"`
	// How often a call is sent at most, when AWS throttles or fails. Defaults
	// to what `AWS_MAX_ATTEMPTS` or the profile says, or else to 6.
	MaxAttempts int `mapstructure:"max_attempts"`
}

// Prepare says what is wrong with the fields.
func (c *Config) Prepare() error {
	var errs []error
	if c.MaxAttempts < 0 || c.MaxAttempts > 100 {
		errs = append(errs, fmt.Errorf("max_attempts: %d must be from 1 to 100", c.MaxAttempts))
	}
	if c.ExternalID != "" && c.AssumeRole == "" {
		errs = append(errs, errors.New("external_id: it is for assume_role, which is missing"))
	}
	return errors.Join(errs...)
}

// Open reaches AWS.
func (c *Config) Open(ctx context.Context) (*awsapi.AWS, error) {
	return awsapi.Open(ctx, awsapi.Options{
		Region: validate.Known(c.Region), Profile: validate.Known(c.Profile), AssumeRole: validate.Known(c.AssumeRole),
		ExternalID: validate.Known(c.ExternalID), Endpoint: validate.Known(c.Endpoint), Attempts: c.MaxAttempts,
	})
}
