//go:build agent

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// workstationCommands returns no commands in the agent.
func workstationCommands() []*cobra.Command { return nil }

// diskFlags adds no flags in the agent.
func diskFlags(*cobra.Command) *auditedDisk { return &auditedDisk{} }

// auditedDisk is no disk.
type auditedDisk struct{}

func (*auditedDisk) isGiven() bool { return false }

func (*auditedDisk) printPolicy(io.Writer) (bool, error) { return false, nil }

func (*auditedDisk) check(*cobra.Command) error { return nil }

func (*auditedDisk) audit(*cobra.Command, scrub.Spec) (plan.Report, error) {
	return plan.Report{}, nil
}

func auditChild(context.Context) (code int, child bool) { return 0, false }

// workstationValues returns nothing in the agent.
func workstationValues() map[string]cobra.CompletionFunc { return nil }
