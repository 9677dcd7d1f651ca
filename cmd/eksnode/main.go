// Command eksnode builds, scrubs and audits EKS node images: on the machine
// itself, on an image root, or as the agent that the Packer plugin sends.
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
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

func main() { mainIn(context.Background()) }

func mainIn(ctx context.Context) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// Otherwise a closed pipe kills the program, and its child processes stay.
	signal.Ignore(syscall.SIGPIPE)
	for _, part := range []func(context.Context) (int, bool){auditChild, rootChild} {
		if code, child := part(ctx); child {
			os.Exit(code)
		}
	}
	os.Exit(run(ctx, commandLine(os.Args), os.Stdin, os.Stdout, os.Stderr))
}

// exitError is an exit code without a message.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageCode is the exit code of wrong usage, and of an audit with a rule that could
// not run: neither says anything about the machine.
const usageCode = 2

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return runOn(ctx, runtime.GOOS, args, in, out, errOut)
}

// runOn runs a command line as on the system goos, and returns the exit code.
func runOn(ctx context.Context, goos string, args []string, in io.Reader, out, errOut io.Writer) int {
	printed := &stdout{Writer: out}
	ctx, cmd := surface.WithFlags(ctx, true), root()
	if goos != "linux" {
		refuseLinuxCommands(cmd)
	}
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		declare(cmd) // reads tables that nothing else needs
	}
	cmd.SetArgs(args)
	cmd.SetIn(in)
	cmd.SetOut(printed)
	cmd.SetErr(errOut)
	err := notEmpty(args[:min(len(args), 1)]) // cobra would print help
	if err == nil {
		err = execute(ctx, cmd, args)
	}
	code, err := exitCode(err)
	if printed.failed != nil && !errors.Is(err, printed.failed) {
		code, err = cmp.Or(code, usageCode), errors.Join(err, printed.failed)
	}
	if interrupted(ctx, err) {
		err = fmt.Errorf("interrupted%s", alsoSaid(ctx, err))
	}
	if err != nil {
		text := show.Printable(surface.WithRequests(surface.InFlags(err), err))
		if !strings.HasPrefix(text, "eksnode ") { // a message about a command begins with its name
			text = "eksnode: " + text
		}
		fmt.Fprintln(errOut, text)
	}
	return code
}

// interrupted reports whether a signal is why a run ended.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}

// alsoSaid is what an error says in addition to the interruption, such as what stays and
// how to go on: the joined errors that the signal did not cause.
func alsoSaid(ctx context.Context, err error) string {
	if !interrupted(ctx, err) {
		return "; " + err.Error()
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return alsoSaid(ctx, e.Unwrap())
	case interface{ Unwrap() []error }:
		var text strings.Builder
		for _, one := range e.Unwrap() {
			text.WriteString(alsoSaid(ctx, one))
		}
		return text.String()
	}
	return ""
}

// execute runs a command line. cobra itself refuses an unknown command at the root.
func execute(ctx context.Context, cmd *cobra.Command, args []string) error {
	err := cmd.ExecuteContext(ctx)
	if _, _, wrong := cmd.Find(args); wrong != nil && err != nil {
		return wrongArgument(cmd, args[0])
	}
	return err
}

// exitCode splits joined errors into the exit code and the error to print.
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
		if exit := exitError(0); errors.As(one, &exit) { // also in joined errors of its own
			code, one = exitCode(one)
		}
		rest = append(rest, one)
	}
	if code == 0 {
		return usageCode, err // some messages join errors differently
	}
	return code, errors.Join(rest...)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "eksnode",
		Short:         "Build, scrub and audit EKS node images",
		Version:       version.String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.DisableSuggestions = true      // wrongArgument has them
	cobra.EnableCommandSorting = false // the help lists commands in the order of use
	cmd.SetFlagErrorFunc(flagError)
	cmd.AddCommand(in(forImages, provisionCommand(), scrubCommand(), auditCommand())...)
	cmd.AddCommand(workstationCommands()...)
	cmd.AddCommand(in(onNodes, initCommand(), bootHookCommand(), tokenCommand(), nodeadmCommand(),
		bootstrapSHCommand(), authenticatorCommand(), diagnoseCommand())...)
	cmd.AddCommand(in(others, versionCommand(), completionCommand())...)
	cmd.SetHelpCommand(in(others, helpCommand())[0])
	cmd.InitDefaultHelpCmd() // otherwise cobra adds the command when it runs
	cmd.AddCommand(agentCommand())
	addGroups(cmd)
	strict(cmd)
	explain(cmd, readHelp())
	return cmd
}

// The groups in which the help lists commands.
const (
	forImages     = "images"
	onWorkstation = "workstation"
	onNodes       = "nodes"
	others        = "others"
)

// helpCommand prints the help of a command. Unlike cobra's own, it fails where
// there is no such command.
func helpCommand() *cobra.Command {
	return newCommand("help [COMMAND…]", cobra.ArbitraryArgs, func(cmd *cobra.Command, args []string) error {
		found, rest, err := cmd.Root().Find(args)
		if err != nil {
			return wrongArgument(cmd.Root(), args[0])
		}
		if len(rest) > 0 {
			return wrongArgument(found, rest[0])
		}
		return found.Help()
	})
}

func in(group string, commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		c.GroupID = group
	}
	return commands
}

// addGroups adds the groups that have commands. The agent does not have all groups.
func addGroups(cmd *cobra.Command) {
	for _, group := range []cobra.Group{
		{ID: forImages, Title: "Build and check images:"},
		{ID: onWorkstation, Title: "On a workstation:"},
		{ID: onNodes, Title: "On a node:"},
		{ID: others, Title: "Other commands:"},
	} {
		if slices.ContainsFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.GroupID == group.ID }) {
			cmd.AddGroup(&group)
		}
	}
}

// openHost opens the image root, or the live machine when root is empty.
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
