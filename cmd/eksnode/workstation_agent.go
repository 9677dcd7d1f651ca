//go:build agent

package main

import "github.com/spf13/cobra"

// workstationCommands returns no commands in the agent.
func workstationCommands() []*cobra.Command { return nil }

// workstationValues returns nothing in the agent.
func workstationValues() map[string]cobra.CompletionFunc { return nil }
