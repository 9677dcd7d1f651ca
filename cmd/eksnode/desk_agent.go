//go:build agent

package main

import "github.com/spf13/cobra"

// deskCommands are none: this program travels to machines.
func deskCommands() []*cobra.Command { return nil }
