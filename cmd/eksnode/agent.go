package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// agentCommand is what the Packer plugin runs on the machine.
func agentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "Do one request from standard input and answer with events (the Packer plugin runs this)",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := host.Live()
			if err != nil {
				return err
			}
			defer h.Close()
			// The folder it was started from is about to go.
			if err := os.Chdir("/"); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if s, ok := out.(*stdout); ok {
				out = s.Writer // a packer host that is gone matters
			}
			r := agent.Serve(cmd.Context(), h, cmd.InOrStdin(), out, version.String())
			return resultError(r)
		},
	}
}

func resultError(r plan.Report) error {
	if code := r.Result.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}
