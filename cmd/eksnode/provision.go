package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/sandbox"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

func provisionCommand() *cobra.Command {
	var spec provisioner.Spec
	var local provisioner.Local
	var file, root, command string
	var dryRun bool
	var out output
	cmd := newCommand("provision", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
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
	})
	bind(cmd, targets{"root": &root, "node-command": &command, "spec": &file, "dry-run": &dryRun})
	options(cmd.Flags(), &spec)
	options(cmd.Flags(), &local)
	out.flags(cmd)
	return cmd
}

// supplyOf returns the source of container images without Packer: this program pulls
// the images.
func supplyOf(spec provisioner.Spec, local provisioner.Local) (provisioner.Supply, error) {
	if images, err := spec.References(); err != nil || len(images) == 0 {
		return nil, err
	}
	return supplyAll(spec, local)
}

// besideSpec are the flags of provision that a spec file does not replace.
var besideSpec = []string{"spec", "root", "node-command", "lock-file", "image-archives", "cache-folder",
	"hardening-content", "dry-run", "output", "report", "verbose"}

// alone refuses flags that the spec file replaces. others are further flags of the command.
func alone(set *pflag.FlagSet, others ...string) error {
	var errs []error
	set.Visit(func(f *pflag.Flag) {
		if !slices.Contains(besideSpec, f.Name) && !slices.Contains(others, f.Name) {
			errs = append(errs, fmt.Errorf("--%s cannot be used with --spec: the file is the whole spec; add the "+
				"option to the file", f.Name))
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

// rootTask is what the process in a sandbox reads from its standard input.
type rootTask struct {
	Spec    provisioner.Spec
	Verbose bool
	DryRun  bool
	// Local has the host's cache folder, if the downloads come from there.
	Local provisioner.Local
	// Command is the eksnode for the root's architecture, if this machine has another one.
	Command string
	// Flags says that the options came from flags, whose names errors have.
	Flags bool
}

// rootAnswer is what that process writes to its standard output.
type rootAnswer struct {
	Report plan.Report
	// Error says why there is no report.
	Error string
}

// provisionRoot provisions the image root h, in a process of its own.
func provisionRoot(ctx context.Context, h *host.Host, t rootTask) (plan.Report, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return plan.Report{}, err
	}
	out, err := sandbox.Run(ctx, h.Root(), text, os.Stderr)
	var a rootAnswer
	if decoding := json.Unmarshal(out, &a); decoding != nil {
		return plan.Report{}, errors.Join(err, context.Cause(ctx))
	}
	if a.Error != "" {
		return plan.Report{}, errors.New(a.Error)
	}
	a.Report.Machine.Root = h.Root()
	return a.Report, nil
}

// rootChild is the process in the sandbox. It writes progress to standard error.
func rootChild(ctx context.Context) (code int, child bool) {
	if !sandbox.Inside() {
		return 0, false
	}
	var a rootAnswer
	var err error
	if a.Report, err = provisionInside(ctx); err != nil {
		a.Error = err.Error()
	}
	if err := writeJSON(os.Stdout, a); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

func provisionInside(ctx context.Context) (plan.Report, error) {
	var t rootTask
	if err := json.NewDecoder(os.Stdin).Decode(&t); err != nil {
		return plan.Report{}, fmt.Errorf("reading the task: %w", err)
	}
	var supply provisioner.Supply
	if t.Local.CacheFolder != "" { // the folder stays open in the sandbox
		cache, err := os.Open(t.Local.CacheFolder)
		if err != nil {
			return plan.Report{}, fmt.Errorf("opening the cache: %w", err)
		}
		defer cache.Close()
		t.Local.CacheFolder = fmt.Sprintf("/proc/self/fd/%d", cache.Fd())
		if supply, err = supplyAll(t.Spec, t.Local); err != nil {
			return plan.Report{}, err
		}
	}
	if t.Command != "" { // as the cache
		command, err := os.Open(t.Command)
		if err != nil {
			return plan.Report{}, fmt.Errorf("opening the eksnode of --node-command: %w", err)
		}
		defer command.Close()
		t.Command = fmt.Sprintf("/proc/self/fd/%d", command.Fd())
	}
	if err := sandbox.Enter(false); err != nil {
		return plan.Report{}, err
	}
	h, err := host.Live()
	if err != nil {
		return plan.Report{}, err
	}
	defer h.Close()
	out := output{verbose: t.Verbose}
	sink, stop := out.watch(&cobra.Command{}, agent.Provision)
	defer stop()
	// The report has the error too.
	r, _ := eksnode.Provision(surface.WithFlags(ctx, t.Flags), h, t.Spec,
		eksnode.Options{Sink: sink, DryRun: t.DryRun, Supply: supply, Command: t.Command})
	return r, nil
}
