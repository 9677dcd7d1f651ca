//go:build agent

package main

import "github.com/spf13/cobra"

// workstationCommands are none: this program travels to machines.
func workstationCommands() []*cobra.Command { return nil }
