//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// awsFlags adds the flags of every command that calls AWS.
func awsFlags(cmd *cobra.Command, o *awsapi.Options) {
	cmd.Flags().StringVar(&o.Region, "region", "", "AWS region (default: from the environment or the profile)")
	accessFlags(cmd, o)
}

// accessFlags adds the flags of awsFlags without the region.
func accessFlags(cmd *cobra.Command, o *awsapi.Options) {
	cmd.Flags().StringVar(&o.Profile, "profile", "", "profile in the shared AWS configuration")
	cmd.Flags().StringVar(&o.AssumeRole, "assume-role", "", "ARN of the IAM role to assume")
	cmd.Flags().StringVar(&o.ExternalID, "external-id", "", "external ID for --assume-role")
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "URL of all AWS services, for private endpoints")
}

// onlyWith refuses flags that have no effect without another flag.
func onlyWith(cmd *cobra.Command, other string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s has no effect without --%s", name, other)
		}
	}
	return nil
}
