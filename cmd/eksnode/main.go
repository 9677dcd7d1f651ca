// Command eksnode makes, scrubs and audits EKS node images: on the machine
// itself, on a mounted image with --root, or as the agent that the Packer
// plugin sends.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Without this, a closed pipe would kill the program and leave the
	// commands it runs behind.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(ctx, commandLine(os.Args), os.Stdin, os.Stdout, os.Stderr))
}

// exitError is an exit code without a message of its own.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageCode is what wrong usage exits with, as an audit that could not tell:
// neither says anything about the machine.
const usageCode = 2

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return runOn(ctx, runtime.GOOS, args, in, out, errOut)
}

// runOn executes a command line as on the system goos, and returns the exit code.
func runOn(ctx context.Context, goos string, args []string, in io.Reader, out, errOut io.Writer) int {
	printed := &stdout{Writer: out}
	cmd := root()
	if goos != "linux" {
		refuseLinuxCommands(cmd)
	}
	cmd.SetArgs(args)
	cmd.SetIn(in)
	cmd.SetOut(printed)
	cmd.SetErr(errOut)
	err := notEmpty(args[:min(len(args), 1)]) // cobra would print help
	if err == nil {
		err = cmd.ExecuteContext(ctx)
	}
	code, err := exitCode(err)
	if printed.failed != nil && !errors.Is(err, printed.failed) {
		code, err = cmp.Or(code, usageCode), errors.Join(err, printed.failed)
	}
	if err != nil {
		text := plan.Printable(surface.InFlags(err))
		if !strings.HasPrefix(text, "eksnode ") { // a message about a command begins with its name
			text = "eksnode: " + text
		}
		fmt.Fprintln(errOut, text)
	}
	return code
}

// exitCode takes the exit code out of joined errors, and leaves what is to be
// printed.
func exitCode(err error) (int, error) {
	if err == nil {
		return 0, nil
	}
	if exit, ok := err.(exitError); ok {
		return int(exit), nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return usageCode, err
	}
	code := 0
	var rest []error
	for _, one := range joined.Unwrap() {
		if exit, ok := one.(exitError); ok {
			code = int(exit)
		} else {
			rest = append(rest, one)
		}
	}
	if code == 0 {
		return usageCode, err // also where a message joins errors in its own way
	}
	return code, errors.Join(rest...)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "eksnode",
		Short:         "Make, scrub and audit EKS node images",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cobra.EnableCommandSorting = false // they are listed in the order of use
	cmd.SetFlagErrorFunc(flagError)
	cmd.AddCommand(in(forImages, provisionCommand(), scrubCommand(), auditCommand())...)
	cmd.AddCommand(workstationCommands()...)
	cmd.AddCommand(in(onNodes, joinCommands()...)...)
	cmd.AddCommand(versionCommand(), agentCommand())
	addGroups(cmd)
	strict(cmd)
	return cmd
}

// The groups in which the help lists commands.
const (
	forImages = "images"
	withAWS   = "aws"
	onNodes   = "nodes"
)

// in puts commands into a group.
func in(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// addGroups names the groups that have commands: not every program has all.
func addGroups(cmd *cobra.Command) {
	for _, group := range []cobra.Group{
		{ID: forImages, Title: "Make and check images:"},
		{ID: withAWS, Title: "Before and after, on a workstation:"},
		{ID: onNodes, Title: "On a node, where the first boot calls most of them:"},
	} {
		if slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.GroupID == group.ID }) {
			cmd.AddGroup(&group)
		}
	}
}

// openHost opens the live machine, or the image at root when one is named.
func openHost(root string) (*host.Host, error) {
	if root == "" {
		return host.Live()
	}
	h, err := host.Mounted(root)
	if errors.Is(err, host.ErrOwnRoot) {
		err = fmt.Errorf("%w; leave --root out to work on the running machine", err)
	}
	return h, err
}
