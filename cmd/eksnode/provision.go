package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

func provisionCommand() *cobra.Command {
	var spec provisioner.Spec
	var local provisioner.Local
	var file, root, command string
	var dryRun bool
	var out output
	cmd := &cobra.Command{
		Use:   "provision",
		Short: "Turn this machine into an EKS node",
		Long: `Provision installs packages and assets such as the kubelet, configures the
system, and prepares first boot. A second run changes nothing. The options come
from flags, or all from the file of --spec.

With --root, provision works on an image root: a folder with another system. The
programs of that system run in a sandbox, and no service starts. In a chroot or a
container build, provision works in the same way without --root.`,
		Example: `  eksnode provision --kubernetes-version 1.36.3 --dry-run
  eksnode provision --kubernetes-version 1.36.3 --lock-file eksnode.lock.json
  eksnode provision --spec spec.yaml
  eksnode provision --root /mnt/image --kubernetes-version 1.36.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := errors.Join(alone(cmd.Flags()), readSpec(file, &spec)); err != nil {
					return err
				}
			}
			if err := readLocal(local, &spec); err != nil {
				return err
			}
			if command != "" && root == "" {
				return errors.New("--node-command has no effect without --root")
			}
			if err := spec.Validate(); err != nil {
				if file != "" {
					err = inFields(err)
				}
				return err
			}
			if err := out.begin(cmd, agent.Provision, root, dryRun); err != nil {
				return err
			}
			h, err := openHost(root)
			if err != nil {
				return err
			}
			defer h.Close()
			if root != "" && !dryRun {
				r, err := provisionRoot(cmd.Context(), h, rootTask{
					Spec: spec, Verbose: out.verbose, Command: command, Flags: file == "",
				})
				if err != nil {
					return err
				}
				return out.finish(cmd, r)
			}
			supply, err := supplyOf(spec, local)
			if err != nil {
				return err
			}
			sink, stop := out.watch(cmd, agent.Provision)
			// The report has the error too.
			r, _ := eksnode.Provision(surface.WithFlags(cmd.Context(), file == ""), h, spec,
				eksnode.Options{DryRun: dryRun, Sink: sink, Supply: supply, Command: command})
			stop()
			return out.finish(cmd, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&root, "root", "", "image root to work on instead of this machine; programs of the image run in a sandbox")
	f.StringVar(&command, "node-command", "", nodeCommandHelp)
	f.StringVar(&file, "spec", "", "YAML or JSON file with all options, instead of flags")
	options(f, provisionHelp(), &spec)
	options(f, provisionHelp(), &local)
	f.BoolVar(&dryRun, "dry-run", false, dryRunHelp)
	out.flags(cmd)
	return cmd
}

const nodeCommandHelp = "eksnode for the image's architecture, if this machine has another one"

// besideSpec are the flags of provision that a spec file does not replace.
var besideSpec = []string{"spec", "root", "node-command", "lock-file", "image-archives", "cache-folder",
	"hardening-content", "dry-run", "output", "report", "verbose"}

// alone refuses flags that the spec file replaces. others are further flags of the command.
func alone(set *pflag.FlagSet, others ...string) error {
	var errs []error
	set.Visit(func(f *pflag.Flag) {
		if !slices.Contains(besideSpec, f.Name) && !slices.Contains(others, f.Name) {
			errs = append(errs, fmt.Errorf("--%s cannot be used with --spec: the file is the whole spec; add the option to the file", f.Name))
		}
	})
	return errors.Join(errs...)
}

func readSpec(name string, spec *provisioner.Spec) error {
	text, err := surface.ReadFile(name)
	if err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	if _, err := strictjson.ReadYAML(name, text, spec); err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	return nil
}
