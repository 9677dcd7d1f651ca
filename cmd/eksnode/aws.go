//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// awsFlags are those of every command that asks AWS.
func awsFlags(cmd *cobra.Command, o *awsapi.Options) {
	cmd.Flags().StringVar(&o.Region, "region", "", "AWS region (default: the environment's or the profile's)")
	cmd.Flags().StringVar(&o.Profile, "profile", "", "profile of the shared AWS configuration")
	cmd.Flags().StringVar(&o.AssumeRole, "assume-role", "", "ARN of the IAM role to assume")
	cmd.Flags().StringVar(&o.ExternalID, "external-id", "", "external ID for --assume-role")
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "address of every AWS service, for private endpoints")
}

// onlyWith refuses flags that do nothing without another: whoever sets them
// expects something of them.
func onlyWith(cmd *cobra.Command, other string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s: it does something with --%s only", name, other)
		}
	}
	return nil
}
