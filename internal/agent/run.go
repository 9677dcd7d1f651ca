package agent

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// Run does what a request asks on a host and reports. The report's Result says
// how it ended; an error that kept it from starting is in the report too, so
// that whoever reads it needs only one place to look. An audit that could not
// start knows nothing, which is another result than findings.
func Run(ctx context.Context, h *host.Host, req Request, tool string, sink plan.Sink) plan.Report {
	return RunSupplied(ctx, h, req, tool, sink, nil)
}

// RunSupplied is Run with somebody who brings what a machine does not fetch
// itself.
func RunSupplied(ctx context.Context, h *host.Host, req Request, tool string, sink plan.Sink, supply asset.Supply) plan.Report {
	r := plan.Report{
		Schema: plan.Schema, Command: string(req.Command), Tool: tool, Started: h.Now(),
		Machine: plan.Machine{Root: h.Root(), Arch: runtime.GOARCH},
	}
	if err := run(ctx, h, req, &r, sink, supply); err != nil {
		r.Result, r.Error, r.Err = plan.Failure, err.Error(), err
		if req.Command == Audit {
			r.Result = plan.Unknown
		}
	}
	r.Finished = h.Now()
	return r
}

func run(ctx context.Context, h *host.Host, req Request, r *plan.Report, sink plan.Sink, supply asset.Supply) error {
	d, release, err := distros.Detect(h, req.distro())
	if err != nil {
		return err
	}
	r.Machine.Distro, r.Machine.Version = d.ID, release.VersionID
	items, err := req.items(d, supply)
	if err != nil {
		return err
	}
	switch {
	case req.Command == Audit:
		r.Audited(plan.Make(ctx, h, items), len(items))
	case req.DryRun:
		dry(ctx, h, items, req.auditFails(), r)
	default:
		return apply(ctx, h, req, d, items, r, sink)
	}
	return nil
}

// apply does the work, which only one process at a time may do to a machine.
func apply(ctx context.Context, h *host.Host, req Request, d distros.Distro, items []plan.Item, r *plan.Report, sink plan.Sink) error {
	unlock, err := h.Lock()
	if err != nil {
		return err
	}
	r.Applied(plan.Apply(ctx, h, items, sink))
	if r.Result != plan.Failure && req.audits() {
		err = conclude(ctx, h, req, d, r, sink)
	}
	// The result is of the disk, not of what the kernel will write to it.
	h.Sync()
	return errors.Join(err, unlock())
}

// audits says whether the request's scrub ends with an audit.
func (r Request) audits() bool {
	return r.Command == Scrub && r.Scrub.Audit != scrub.AuditOff
}

// auditFails says whether that audit's findings fail the scrub.
func (r Request) auditFails() bool { return r.audits() && r.Scrub.Audit != scrub.AuditWarns }

// dry reports what a run would do and, of a scrub, what its audit would find
// besides.
func dry(ctx context.Context, h *host.Host, items []plan.Item, fails bool, r *plan.Report) {
	var work, inspect []plan.Item
	for _, i := range items {
		if i.Phase() == string(scrub.Inspect) {
			inspect = append(inspect, i)
			continue
		}
		work = append(work, i)
	}
	r.Dry(plan.Make(ctx, h, work), len(work))
	if len(inspect) > 0 {
		r.Concluded(plan.Make(ctx, h, inspect), len(inspect), fails)
	}
}

// conclude ends a scrub with its audit.
func conclude(ctx context.Context, h *host.Host, req Request, d distros.Distro, r *plan.Report, sink plan.Sink) error {
	items, err := req.Scrub.AuditItems(d.Scrub)
	if err != nil {
		return err
	}
	sink.Begin("audit", "audit", 0)
	r.Concluded(plan.Make(ctx, h, items), len(items), req.auditFails())
	return nil
}

func (r Request) distro() string {
	switch {
	case r.Provision != nil:
		return r.Provision.Distro
	case r.Scrub != nil:
		return r.Scrub.Distro
	default:
		return ""
	}
}

// items are the steps or rules that the request asks for.
func (r Request) items(d distros.Distro, supply asset.Supply) ([]plan.Item, error) {
	switch r.Command {
	case Provision:
		if r.Provision == nil {
			return nil, errors.New("reading the request: a provision needs its spec in the field provision")
		}
		return provisioner.SuppliedSteps(*r.Provision, d, runtime.GOARCH, supply, r.SupplyAssets)
	case Scrub, Audit:
		if r.Scrub == nil {
			return nil, fmt.Errorf("reading the request: %s needs its spec in the field scrub", r.Command)
		}
		if r.Command == Audit && r.Scrub.Audit != "" {
			return nil, errors.New("reading the request: audit is a field of a scrub, and has no effect on an audit")
		}
		if r.Command == Audit {
			return r.Scrub.AuditItems(d.Scrub)
		}
		if r.DryRun {
			return r.Scrub.PlanItems(d.Scrub)
		}
		return r.Scrub.Items(d.Scrub)
	default:
		return nil, fmt.Errorf("reading the request: the command %q is not known; known: %s, %s, %s", r.Command, Provision, Scrub, Audit)
	}
}
