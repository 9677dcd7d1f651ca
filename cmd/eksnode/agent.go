package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func agentCommand() *cobra.Command {
	cmd := newCommand("agent", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		h, err := host.Live()
		if err != nil {
			return err
		}
		defer h.Close()
		// The agent removes the folder that it started in.
		if err := os.Chdir("/"); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if s, ok := out.(*stdout); ok {
			out = s.Writer // a closed connection to the Packer host is an error
		}
		r := agent.Serve(surface.WithFlags(cmd.Context(), false), h, cmd.InOrStdin(), out, version.String(), runRequest)
		return resultError(r.Result)
	})
	cmd.Hidden = true
	return cmd
}

func runRequest(ctx context.Context, h *host.Host, req agent.Request, sink plan.Sink, supply asset.Supply) plan.Report {
	o := eksnode.Options{DryRun: req.DryRun, Sink: sink}
	var r plan.Report // the report holds the error too
	switch req.Command {
	case agent.Provision:
		o.Supply, o.SupplyAssets = supply, req.SupplyAssets
		r, _ = eksnode.Provision(ctx, h, *req.Provision, o)
	case agent.Scrub:
		r, _ = eksnode.Scrub(ctx, h, *req.Scrub, o)
	case agent.Audit:
		r, _ = eksnode.Audit(ctx, h, *req.Scrub, eksnode.Options{})
	}
	return r
}

func resultError(r plan.Result) error {
	if code := r.ExitCode(); code != 0 {
		return exitError(code)
	}
	return nil
}
