//go:build agent

package main

import (
	"fmt"
	"io"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

// The help of nodes does not mention instances.
const instanceHelp, instanceExample = "\n\n", ""

// consoles refuses instances: the agent does not contain the client of EC2.
type consoles struct{}

func (consoles) flags(*cobra.Command) {}

func (consoles) printPolicy(io.Writer) (done bool, err error) { return false, nil }

func (consoles) check(*cobra.Command, []string) error { return nil }

var likeInstance = regexp.MustCompile(`^i-[0-9A-Za-z]*$`)

func (consoles) is(arg string) bool { return likeInstance.MatchString(arg) && !isThere(arg) }

func (consoles) search(_ *cobra.Command, _ *diagnose.Search, id string) error {
	return fmt.Errorf("reading %s: the eksnode of nodes cannot ask EC2 for the console output of an instance; run this command on a workstation", id)
}
