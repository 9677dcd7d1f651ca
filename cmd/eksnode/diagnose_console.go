//go:build !agent

package main

import (
	"bytes"
	"errors"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
)

// consoles reads the console output of instances.
type consoles struct {
	aws awsapi.Options
}

// flags adds the flags of the AWS connection.
func (c *consoles) flags(cmd *cobra.Command) {
	policyFlag(cmd, func() (string, error) {
		return awsapi.Policy("EksnodeDiagnose", []string{"ec2:GetConsoleOutput"})
	})
	awsFlags(cmd, &c.aws)
}

var likeInstance = regexp.MustCompile(`^i-[0-9A-Za-z]*$`)

// check refuses flags of the connection without an instance.
func (c *consoles) check(cmd *cobra.Command, args []string) error {
	if slices.ContainsFunc(args, c.is) {
		return nil
	}
	if set := given(cmd, awsFlagNames...); len(set) > 0 {
		return errors.New(set[0] + " has no effect without the ID of an instance")
	}
	return nil
}

// is says whether an argument is the ID of an instance. What only looks like one is
// a file if there is such a file, and otherwise an invalid ID.
func (c *consoles) is(arg string) bool {
	return awsnames.InstanceID.Check(arg) == nil || likeInstance.MatchString(arg) && !isThere(arg)
}

func (c *consoles) search(cmd *cobra.Command, s *diagnose.Search, id string) error {
	if awsnames.InstanceID.Check(id) != nil {
		return errors.New("reading " +
			id + ": there is no such file, and the ID of an instance is i- and 8 or 17 hexadecimal digits")
	}
	a, err := awsapi.Open(cmd.Context(), c.aws)
	if err != nil {
		return err
	}
	text, err := a.Console(cmd.Context(), id)
	if err != nil {
		return err
	}
	return s.Input(id, bytes.NewReader(text))
}
