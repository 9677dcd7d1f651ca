package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/imds"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// bootstrapSHCommand answers to the name of Amazon Linux 2's script. Its flags
// are read by package arguments: they mix with the cluster's name, and each
// takes a value, booleans too.
func bootstrapSHCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "bootstrap.sh [flags] CLUSTER",
		Short:              "Join as Amazon Linux 2's /etc/eks/bootstrap.sh does",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			endpoints, args := cutIMDS(args)
			a, err := arguments.Parse(args)
			if errors.Is(err, arguments.ErrHelp) {
				fmt.Fprint(cmd.OutOrStdout(), arguments.Usage("bootstrap.sh"))
				return exitError(1) // as the script does
			}
			if err != nil {
				return fmt.Errorf("bootstrap.sh: %w\n`bootstrap.sh --help` lists the flags", err)
			}
			j := joining{imds: endpoints}
			s, err := j.surroundings(logTo(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			return onNode(cmd, func(h *host.Host) error {
				n, err := s.FromArguments(cmd.Context(), h, a)
				if err != nil {
					return err
				}
				return join(cmd.Context(), h, s, n, bootstrap.Selection{})
			})
		},
	}
}

// cutIMDS takes the metadata service's address, which only tests give, from the
// front of the contract's flags.
func cutIMDS(args []string) (endpoints, rest []string) {
	if len(args) > 1 && args[0] == "--imds" {
		return []string{args[1]}, args[2:]
	}
	return imds.Endpoints(), args
}
