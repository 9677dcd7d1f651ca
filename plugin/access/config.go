// Package access holds what components share that call AWS: fields, and the progress of
// transfers.
package access

import (
	"context"
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
)

// Config holds the AWS fields of a block. Missing fields have the defaults of the
// AWS CLI.
type Config struct {
	awsapi.Options `mapstructure:",squash"`
}

// Prepare validates the fields that are known already.
func (c *Config) Prepare() error {
	known := validate.KnownFields(c.Options)
	if validate.IsUnknown(c.AssumeRole) {
		known.ExternalID = "" // it needs the other one
	}
	return known.Validate()
}

// Open returns a client for AWS.
func (c *Config) Open(ctx context.Context) (*awsapi.AWS, error) {
	return awsapi.Open(ctx, c.Options)
}

// Home replaces the ~ at the beginning of the paths of a statement. An ARN or an alias of a
// key has none.
func Home(s *amiimport.Signing) error {
	errs := []error{validate.Home("statement", &s.Statement), validate.Home("statement_key", &s.StatementKey)}
	for i := range s.Templates {
		errs = append(errs, validate.Home("templates", &s.Templates[i]))
	}
	return errors.Join(errs...)
}
