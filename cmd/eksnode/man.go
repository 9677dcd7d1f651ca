//go:build !agent

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/awsnames"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

func manCommand() *cobra.Command {
	cmd := newCommand("man FOLDER", named("a folder", 1), func(cmd *cobra.Command, args []string) error {
		date, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"), time.Now)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(args[0], 0o755); err != nil {
			return fmt.Errorf("creating the folder for man pages: %w", err)
		}
		asMarkdown(cmd.Root())
		header := &doc.GenManHeader{Section: "1", Date: &date, Source: "eksnode " + version.String(),
			Manual: "eksnode manual"}
		if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
			return fmt.Errorf("writing the man pages to %s: %w", args[0], err)
		}
		return nil
	})
	cmd.Hidden = true
	return cmd
}

// sourceDate reads SOURCE_DATE_EPOCH
// (https://reproducible-builds.org/specs/source-date-epoch).
func sourceDate(epoch string, now func() time.Time) (time.Time, error) {
	if epoch == "" {
		return now().UTC(), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading SOURCE_DATE_EPOCH: %q is not a number of seconds", epoch)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// asMarkdown prepares commands for package doc, which reads descriptions as
// Markdown: a list becomes a code block. The pages have no date of their making
// and name no help commands except the root's.
func asMarkdown(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	list := false
	var lines []string
	for line := range strings.SplitSeq(cmd.Long, "\n") {
		indented := strings.HasPrefix(line, "  ")
		if indented && !list {
			lines = append(lines, "")
		}
		if list = indented; list {
			line = "    " + line
		}
		lines = append(lines, line)
	}
	cmd.Long = strings.Join(lines, "\n")
	if cmd.HasParent() && cmd.HasSubCommands() {
		cmd.SetHelpCommand(&cobra.Command{Use: "help", Hidden: true})
	}
	for _, sub := range cmd.Commands() {
		asMarkdown(sub)
	}
}

// policyFlag adds --policy, which prints the IAM policy that a command needs and does
// nothing else, so that the command takes no arguments.
func policyFlag(cmd *cobra.Command, policy func() (string, error)) {
	run, check, print := cmd.RunE, cmd.Args, false
	bind(cmd, targets{"policy": &print})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if print {
			return cobra.NoArgs(cmd, args)
		}
		return check(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !print {
			return run(cmd, args)
		}
		text, err := policy()
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
		}
		return err
	}
}

// anywhere is a policy for all regions and keys.
func anywhere(policy func(awsapi.Scope) (string, error)) func() (string, error) {
	return func() (string, error) { return policy(awsapi.Scope{}) }
}

// required has a command demand flags. Each has what to set, or ends in a space before the
// help of the flag. It comes before policyFlag, which needs no other flag.
func required(cmd *cobra.Command, flags ...[2]string) {
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var errs []error
		for _, f := range flags {
			name, what := f[0], f[1]
			if strings.HasSuffix(what, " ") {
				what += cmd.Flags().Lookup(name).Usage
			}
			if !cmd.Flags().Changed(name) {
				errs = append(errs, fmt.Errorf("--%s is missing; %s", name, what))
			}
		}
		if len(errs) > 0 {
			return errors.Join(errs...)
		}
		return run(cmd, args)
	}
}

// roleForm is the form of --role: a name, or an ARN.
func roleForm(text string) error {
	if awsnames.RoleName.Check(text) == nil {
		return nil
	}
	return awsnames.RoleARN.Check(text)
}
