//go:build !agent

package main

import "github.com/spf13/cobra"

// deskCommands are those that a person's desk needs and a machine does not: the
// build tag agent leaves them, and the libraries they need, out of the program
// that travels.
func deskCommands() []*cobra.Command {
	return append(in(forImages, lockCommand(), distrosCommand()),
		in(withAWS, preflightCommand(), manifestsCommand(), userdataCommand(), amiCommand())...)
}
