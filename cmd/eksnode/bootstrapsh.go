package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/firstboot"
)

// bootstrapSHCommand is the command for the name of Amazon Linux 2's bootstrap.sh.
// Package arguments reads its flags, because they may follow the cluster's name and
// booleans take a value too.
func bootstrapSHCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "bootstrap.sh [flags] CLUSTER",
		Short:              "Join with the flags of Amazon Linux 2's /etc/eks/bootstrap.sh",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := arguments.Read(args, os.Getenv)
			if errors.Is(err, arguments.ErrHelp) {
				fmt.Fprint(cmd.OutOrStdout(), arguments.Usage("bootstrap.sh"))
				return exitError(1) // as the script does
			}
			if err != nil {
				return fmt.Errorf("bootstrap.sh: %w\n`bootstrap.sh --help` lists the flags", err)
			}
			return onNode(cmd, func(h *host.Host) error {
				service, err := firstboot.OpenMetadata(cmd.Context())
				if err != nil {
					return err
				}
				log := logTo(cmd.ErrOrStderr())
				service.AtBoot(log)
				s, err := surroundings(service, log)
				if err != nil {
					return err
				}
				if len(a.Variables) > 0 {
					log("settings from the environment: " + strings.Join(a.Variables, ", "))
				}
				n, err := s.FromArguments(cmd.Context(), h, a)
				if err != nil {
					return err
				}
				return join(cmd.Context(), h, s, n, bootstrap.Selection{})
			})
		},
	}
}
