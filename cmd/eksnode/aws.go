//go:build !agent

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// awsFlags are those of every command that asks AWS.
func awsFlags(cmd *cobra.Command, o *awsapi.Options) {
	cmd.Flags().StringVar(&o.Region, "region", "", "the region that is asked (default: the environment's or the profile's)")
	cmd.Flags().StringVar(&o.Profile, "profile", "", "a profile of the shared AWS configuration")
	cmd.Flags().StringVar(&o.AssumeRole, "assume-role", "", "ARN of a role to take on before anything is asked")
	cmd.Flags().StringVar(&o.ExternalID, "external-id", "", "external ID that the role's trust policy demands")
	cmd.Flags().StringVar(&o.Endpoint, "endpoint", "", "address of every service, for private endpoints")
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
