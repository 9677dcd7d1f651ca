package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/sandbox"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

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
