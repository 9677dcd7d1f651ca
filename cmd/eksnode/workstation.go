//go:build !agent

package main

import "github.com/spf13/cobra"

// workstationCommands are those that a workstation needs and a machine does not: the
// build tag agent leaves them, and the libraries they need, out of the program
// that travels.
func workstationCommands() []*cobra.Command {
	return append(in(forImages, lockCommand(), distrosCommand()),
		in(withAWS, preflightCommand(), manifestsCommand(), userdataCommand(), amiCommand())...)
}
