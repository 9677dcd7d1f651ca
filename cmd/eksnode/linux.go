package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// linuxCalls says which calls of a command need Linux, if others work on every system.
func linuxCalls() map[string]func(cmd *cobra.Command, args []string) bool {
	return map[string]func(cmd *cobra.Command, args []string) bool{
		"diagnose": func(cmd *cobra.Command, args []string) bool {
			return cmd.Flags().Changed("root") || len(args) == 0 && !cmd.Flags().Changed("policy")
		},
		"version": func(cmd *cobra.Command, _ []string) bool { return cmd.Flags().Changed("image") },
	}
}

// refuseLinuxCommands replaces the commands that need Linux by an error that says
// so, for all flags and arguments, and marks the commands in the help.
func refuseLinuxCommands(root *cobra.Command) {
	for path, text := range readHelp() {
		if cmd, _, err := root.Find([]string{path}); text.linux != "" && err == nil {
			refuse(cmd, text.linux, linuxCalls()[path])
		}
	}
}

func refuse(cmd *cobra.Command, why string, needs func(cmd *cobra.Command, args []string) bool) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if needs != nil && !needs(cmd, args) {
			return run(cmd, args)
		}
		return fmt.Errorf("%s needs Linux: %s", cmd.CommandPath(), why)
	}
	if needs != nil {
		return
	}
	cmd.Short += " (needs Linux)"
	cmd.Args = cobra.ArbitraryArgs
	cmd.FParseErrWhitelist.UnknownFlags = true
	for _, sub := range cmd.Commands() {
		refuse(sub, why, needs)
	}
}
