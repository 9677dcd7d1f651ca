package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// linuxNeed says why a command needs Linux, and what to do on other systems.
type linuxNeed struct {
	why, instead string
	// needs reports whether a call needs Linux. nil means every call.
	needs func(cmd *cobra.Command, args []string) bool
}

// linuxNeeds lists the commands that need Linux, with their subcommands. The others
// work on every system.
func linuxNeeds() map[string]linuxNeed {
	const onMachine = "run eksnode on the builder machine, or on a Linux machine with --root and the image mounted"
	const onNode = "instances of an image from eksnode run the command at first boot"
	return map[string]linuxNeed{
		"provision": {why: "the command changes the machine that it runs on", instead: `run eksnode on the builder machine, or use the Packer provisioner "eksnode" from here`},
		"build":     {why: "the command mounts a disk image", instead: "run eksnode on a Linux machine, or in CI"},
		"scrub":     {why: "the command deletes files through Linux system calls", instead: onMachine + `, or use the Packer provisioner "eksnode-scrub" from here`},
		"audit":     {why: "the command reads files through Linux system calls", instead: onMachine},
		"init":      {why: "the command configures the node that it runs on", instead: onNode},
		"boot-hook": {why: "the command configures the node that it runs on", instead: onNode},
		"nodeadm":   {why: "the command configures the node that it runs on", instead: onNode + "; eksnode userdata checks user data from here"},
		"bootstrap.sh": {
			why: "the command configures the node that it runs on", instead: onNode + "; eksnode userdata checks user data from here",
		},
		"token": {why: "the command signs with the credentials of the node that it runs on", instead: "run aws eks get-token from here"},
		"agent": {why: "the Packer plugin runs the command on the builder machine", instead: "use the plugin from here"},
		"diagnose": {
			why: "without arguments, the command reads the journal of this machine, and with --root that of an image root", instead: "name the logs of a node",
			needs: func(cmd *cobra.Command, args []string) bool {
				return cmd.Flags().Changed("root") || len(args) == 0 && !cmd.Flags().Changed("policy")
			},
		},
		"version": {
			why: "with --image, the command reads the manifest of a machine or an image root", instead: "run eksnode on that machine",
			needs: func(cmd *cobra.Command, _ []string) bool { return cmd.Flags().Changed("image") },
		},
	}
}

// refuseLinuxCommands replaces the commands that need Linux by an error that says
// so, for all flags and arguments, and marks the commands in the help.
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
