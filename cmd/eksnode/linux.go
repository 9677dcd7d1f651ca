package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// linuxNeed is why a command works on Linux alone, and what to do elsewhere.
type linuxNeed struct {
	why, instead string
	// needs says when, for a command that does not always need Linux.
	needs func(cmd *cobra.Command, args []string) bool
}

// linuxNeeds are the commands that need Linux, with their subcommands. The others
// work wherever eksnode is compiled.
func linuxNeeds() map[string]linuxNeed {
	const onMachine = "run it on the builder machine, or on a Linux machine with the image mounted and --root"
	const onNode = "an image that eksnode made runs it on its instances"
	return map[string]linuxNeed{
		"provision": {why: "it changes the machine it runs on", instead: `run it on the builder machine, or use the Packer provisioner "eksnode" from here`},
		"scrub":     {why: "it deletes files through Linux system calls", instead: onMachine + `, or use the Packer provisioner "eksnode-scrub" from here`},
		"audit":     {why: "it reads files through Linux system calls", instead: onMachine},
		"init":      {why: "it configures the node it runs on", instead: onNode},
		"boot-hook": {why: "it configures the node it runs on", instead: onNode},
		"nodeadm":   {why: "it configures the node it runs on", instead: onNode + "; eksnode userdata checks user data from here"},
		"bootstrap.sh": {
			why: "it configures the node it runs on", instead: onNode + "; eksnode userdata checks user data from here",
		},
		"token": {why: "it signs with the credentials of the node it runs on", instead: "run aws eks get-token from here"},
		"agent": {why: "it is what the Packer plugin sends to the builder machine", instead: "use the plugin from here"},
		"diagnose": {
			why: "without arguments it reads the journal of the machine it runs on", instead: "name the logs of a node",
			needs: func(_ *cobra.Command, args []string) bool { return len(args) == 0 },
		},
		"version": {
			why: "with --image it reads the manifest of a machine or an image root", instead: "run it there",
			needs: func(cmd *cobra.Command, _ []string) bool { return cmd.Flags().Changed("image") },
		},
	}
}

// refuseLinuxCommands makes the commands that need Linux say so, whatever their
// flags and arguments, and marks them in the help.
func refuseLinuxCommands(root *cobra.Command) {
	needs := linuxNeeds()
	for _, cmd := range root.Commands() {
		if need, ok := needs[cmd.Name()]; ok {
			need.refuse(cmd)
		}
	}
}

func (n linuxNeed) refuse(cmd *cobra.Command) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n.needs != nil && !n.needs(cmd, args) {
			return run(cmd, args)
		}
		return fmt.Errorf("%s needs Linux: %s; %s", cmd.CommandPath(), n.why, n.instead)
	}
	if n.needs != nil {
		return
	}
	cmd.Short += " (needs Linux)"
	cmd.Args = cobra.ArbitraryArgs
	cmd.FParseErrWhitelist.UnknownFlags = true
	for _, sub := range cmd.Commands() {
		n.refuse(sub)
	}
}
