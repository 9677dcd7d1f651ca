package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// kernelArguments adds the spec's arguments to the kernel's command line from the
// next boot on. It is done when the boot loader's configuration has all of them.
func (n *node) kernelArguments(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	if len(n.spec.KernelArguments) == 0 {
		return nil, nil
	}
	how := n.distro.Kernel.With(n.spec.KernelArguments)
	actions, err := planArgumentsFile(h, how)
	if err != nil || len(how.Take) == 0 {
		return actions, err
	}
	taken, err := n.taken(ctx, h, n.spec.KernelArguments)
	if err != nil || taken && len(actions) == 0 {
		return nil, err
	}
	why := "puts kernel_arguments into the boot loader's configuration"
	return append(actions, act(plan.Run, strings.Join(how.Take, " "), why, func(ctx context.Context) error {
		switch program := how.Take[0]; {
		case !h.HasCommand(program):
			return surface.Errorf("this machine has no %s and does not start with its own boot loader, so "+
				"{kernel_arguments} has no effect; remove the setting", program)
		case h.Offline():
			return surface.Errorf("%s has to read the disks of a running machine, so {kernel_arguments} has no effect "+
				"in an offline root; leave the setting out, and set the arguments in the boot loader's configuration",
				program)
		}
		return run(ctx, h, how.Take)
	})), nil
}

// planArgumentsFile plans the boot loader's file, or one line of it.
func planArgumentsFile(h *host.Host, how distros.CommandLine) ([]plan.Action, error) {
	if how.File.Path == "" {
		return nil, nil
	}
	if !how.Appended {
		return plan.Files(h, []plan.File{textFile(how.File.Path, how.File.Content, how.File.Why)})
	}
	line := strings.TrimSuffix(how.File.Content, "\n")
	return planLines(h, []lineInFile{{Path: how.File.Path, Key: ` # eksnode$`, Text: line, Why: how.File.Why}})
}

// taken says whether the boot loader has every argument. On an image root
// it is false when only a command could say.
func (n *node) taken(ctx context.Context, h *host.Host, arguments []string) (bool, error) {
	how := n.distro.Kernel
	var text []byte
	var err error
	if how.TakenFile != "" {
		text, err = h.Content(how.TakenFile)
	} else if h.HasCommand(how.TakenBy[0]) {
		text, err = h.Run(ctx, host.Command{Argv: how.TakenBy})
	}
	if errors.Is(err, host.ErrMountedRoot) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the kernel's arguments: %w", err)
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool { return strings.ContainsRune(" \t\n\"'", r) })
	lacks := func(a string) bool { return !slices.Contains(words, a) }
	return !slices.ContainsFunc(arguments, lacks), nil
}
