// Package eksnode is for programs that make or check Amazon EKS node images
// themselves: image pipelines, scanners, controllers. It turns a plain Linux machine
// into a node, scrubs the machine before its disk becomes an image, audits images,
// and renders user data for instances. Who only wants an image uses the Packer
// plugin or the command eksnode.
//
// A program brings its own distribution, rules and progress in [Options], without a
// fork. The examples show each.
//
// # The model
//
// A [host.Host] is the machine or the chroot that runs this program ([host.Live]), or an image
// root: the file system of another machine below a folder ([host.Mounted]). Nothing
// in an image root is executed, no link leads out of the root, and no other file
// system that is mounted there is entered.
//
// A [provisioner.Spec] describes the wanted node, and a [scrub.Spec] selects the
// rules of a scrub or an audit. [Provision] makes steps of its spec, [Scrub] and
// [Audit] make rules of their specs. Steps and rules are both a [plan.Item]: its
// method Plan looks at the host, changes nothing, and returns the actions that are
// left to do.
//
//   - A dry run plans the items and returns the actions.
//   - A real run performs the actions and plans again. Actions that are still left
//     are a failure.
//   - An audit only plans. The actions that are left are its findings.
//
// So a second run changes nothing, and the next run finishes an interrupted run.
// Some findings only a person can resolve. A scrub reports such findings and does
// not act on them.
//
// # Results and errors
//
// Every run returns a [plan.Report]: the machine, what was done or is left to do,
// and a [plan.Result], whose ExitCode is the exit code of the command eksnode. A
// JSON Schema, docs/reference/report.schema.json, describes the report. The error is
// not nil when the run could not begin or did not end. The report then has the same
// error, and the result failed, or unknown for an audit. Findings are a result, not
// an error.
//
// # Where things are
//
// Package hosttest makes image roots for tests of own rules. Package distros describes
// one distribution in each file, package scrub has the
// table of rules, package provisioner the steps, package userdata the user data of
// every family of images. A lock on the machine's root folder lets one process at a
// time change the machine.
//
// Runs work on Linux. [Plan] and [UserData] work on every system.
package eksnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

// Options are how a run works. The zero value runs without progress.
type Options struct {
	// DryRun plans and changes nothing.
	DryRun bool
	// Sink receives the progress of a run or an audit; nil for none.
	Sink plan.Sink
	// Distro is the machine's distribution, for one that eksnode does not know; nil
	// means a known one. See distros.Distro.Validate.
	Distro *distros.Distro
	// Rules are additional rules of a scrub or an audit; see scrub.Extend.
	Rules []scrub.Rule
	// Command is the file of the command eksnode, built for the machine's
	// architecture. Provision installs the command, which configures the node at
	// first boot. Empty means the running program, which must then be eksnode.
	Command string
	// Supply has the container images, which Provision does not pull itself; nil is
	// enough for a spec without Images and PauseImage. See provisioner.Local.Supply.
	Supply provisioner.Supply
	// SupplyAssets takes the downloads from Supply too.
	SupplyAssets bool
}

// Provision turns the machine into the node of the spec. Package managers do not
// work on an image root, so a real run needs the live machine. A dry run also takes
// an image root.
func Provision(ctx context.Context, h *host.Host, spec provisioner.Spec, o Options) (plan.Report, error) {
	r := begin(ctx, h, "provision")
	return end(ctx, h, &r, plan.Failure, func() error {
		if len(o.Rules) > 0 {
			return errors.New("Options.Rules has no effect on a provision")
		}
		if !h.IsLive() && !o.DryRun {
			return fmt.Errorf("provisioning %s: %w; run eksnode in a chroot there, or the command eksnode provision "+
				"--root", h.Root(), host.ErrMountedRoot)
		}
		d, err := o.detect(h, spec.Distro, &r)
		if err != nil {
			return err
		}
		if r.Machine.Arch == "" {
			return fmt.Errorf("provisioning %s: the machine's architecture is unknown: /bin/sh is no program for "+
				"Linux", h.Root())
		}
		if o.Command, err = o.command(r.Machine.Arch); err != nil {
			return err
		}
		items, err := provisioner.Steps(spec, d, provisioner.Inputs{
			Arch: r.Machine.Arch, Command: o.Command, Supply: o.Supply, SupplyAssets: o.SupplyAssets,
		})
		if err != nil {
			return err
		}
		if r.Warnings, err = provisioner.Warnings(spec, d, h); err != nil {
			return err
		}
		if o.DryRun {
			r.Dry(plan.Look(ctx, h, items, nil))
			return warnOfOrder(h, &r, true)
		}
		return change(h, func() error {
			if err := warnOfOrder(h, &r, false); err != nil {
				return err
			}
			r.Applied(plan.Apply(ctx, h, items, o.Sink))
			if r.Result == plan.Failure {
				return nil
			}
			r.Image, err = provisioner.Result(ctx, h, r.Outcomes)
			return err
		})
	})
}

// warnOfOrder warns when a provision follows a scrub, and records that for audits.
func warnOfOrder(h *host.Host, r *plan.Report, dry bool) error {
	follows, err := rules.Provisioned(h, dry)
	if follows {
		r.Warnings = append(r.Warnings, "this provision follows a scrub, and an audit of the image will fail: scrub "+
			"again, as the last step (in Packer, the last provisioner is eksnode-scrub)")
	}
	return err
}

// Scrub removes what an image must not carry, and restores the templates. It ends
// with an audit by the same rules, unless spec.Audit is off. What a program has written
// during the scrub is removed once more before the audit is final.
func Scrub(ctx context.Context, h *host.Host, spec scrub.Spec, o Options) (plan.Report, error) {
	r := begin(ctx, h, "scrub")
	return end(ctx, h, &r, plan.Failure, func() error {
		table, err := o.rules(h, spec.Distro, &r)
		if err != nil {
			return err
		}
		if o.DryRun {
			items, err := spec.Items(scrub.ToPlan, table)
			if err == nil {
				dryScrub(ctx, h, spec, items, &r)
			}
			return err
		}
		items, err := spec.Items(scrub.ToScrub, table)
		if err != nil {
			return err
		}
		if err := mayScrub(ctx, h, os.Geteuid()); err != nil {
			return err
		}
		return change(h, func() error {
			ids, err := rules.MachineIDs(h)
			if err != nil {
				return err
			}
			r.Applied(plan.Apply(ctx, h, items, o.Sink))
			if r.Result == plan.Failure {
				return nil
			}
			// The audit looks for what follows the record.
			if err := rules.Ended(ctx, h, version.String(), r.Outcomes); err != nil || spec.Audit == scrub.AuditOff {
				return err
			}
			audits, err := spec.Items(scrub.ToAudit, table, ids...)
			if err != nil {
				return err
			}
			look := func() ([]plan.Planned, []plan.Check) {
				if o.Sink != nil {
					o.Sink.Begin("audit", "audit", 0)
				}
				return plan.Look(ctx, h, audits, nil)
			}
			list, asked := look()
			// A program has written during the scrub. What it does once, such as the record
			// of a session that ends, needs no person.
			written := slices.DeleteFunc(items, func(i plan.Item) bool { return !plan.Pending(list, i) })
			if len(written) > 0 {
				again, err := plan.Apply(ctx, h, written, o.Sink)
				if r.Repeated(again, err); err != nil {
					return nil
				}
				if err := rules.Ended(ctx, h, version.String(), again); err != nil {
					return err
				}
				list, asked = look()
			}
			r.Concluded(list, asked, spec.Audit != scrub.AuditWarns)
			r.Audit.Rules = spec.Checks(table, asked)
			return nil
		})
	})
}

// mayScrub refuses a scrub that would remove a part and fail then. Only root may
// change all files of a machine. Another user may scrub an image root whose files
// are the user's own, such as one that the user unpacked.
func mayScrub(ctx context.Context, h *host.Host, uid int) error {
	if uid == 0 {
		return nil
	}
	asRoot := surface.Words{HCL: "let the communicator's user use sudo without a password",
		Flags: "run eksnode as root"}
	if h.IsLive() {
		return surface.Errorf("eksnode runs as user %d, but only root can scrub a machine; %s", uid, asRoot)
	}
	_, err := h.Files.Walk(ctx, "/", "/", func(e host.Entry, err error) error {
		if err != nil || e.Mode()&fs.ModeSymlink != 0 {
			return err
		}
		st, err := h.Files.Attributes(e.Path)
		if err == nil && st.UID != uid {
			return surface.Errorf("scrubbing %s: eksnode runs as user %d, but %s in the image root belongs to user "+
				"%d; %s, or unpack the image as this user",
				h.Root(), uid, e.Path, st.UID, asRoot)
		}
		return err
	})
	return err
}

// dryScrub reports what a scrub would do and what its audit would find.
func dryScrub(ctx context.Context, h *host.Host, spec scrub.Spec, items []plan.Item, r *plan.Report) {
	inspects := func(i plan.Item) bool { return i.Phase() == string(scrub.Inspect) }
	r.Dry(plan.Look(ctx, h, slices.DeleteFunc(slices.Clone(items), inspects), nil))
	inspect := slices.DeleteFunc(items, func(i plan.Item) bool { return !inspects(i) })
	if len(inspect) > 0 {
		list, asked := plan.Look(ctx, h, inspect, nil)
		r.Concluded(list, asked, spec.Audit != scrub.AuditWarns && spec.Audit != scrub.AuditOff)
	}
}

// Audit reports what a scrub with this spec would still do or find, and the outcome
// of every rule. It changes nothing. Its result is unknown when a rule could not
// look. Options for changes are an error.
func Audit(ctx context.Context, h *host.Host, spec scrub.Spec, o Options) (plan.Report, error) {
	r := begin(ctx, h, "audit")
	return end(ctx, h, &r, plan.Unknown, func() error {
		if spec.Audit != "" {
			return errors.New("audit is a field of a scrub, and has no effect on an audit")
		}
		if o.DryRun {
			return errors.New("Options.DryRun has no effect on an audit, which changes nothing")
		}
		rules, err := o.rules(h, spec.Distro, &r)
		if spec.Node == scrub.NodeNo && spec.Distro == "" && errors.Is(err, distros.ErrUnknown) {
			rules, err = scrub.Extend(distros.ScrubRules(), o.Rules)
		}
		if errors.Is(err, distros.ErrUnknown) {
			return surface.Errorf("%w; an audit of what is no node needs no known distribution: set %s", err,
				surface.Name("node").Is("no"))
		}
		if err != nil {
			return err
		}
		items, err := spec.Items(scrub.ToAudit, rules)
		if err != nil {
			return err
		}
		list, asked := plan.Look(ctx, h, items, o.Sink)
		r.Audited(list, asked)
		r.Rules = spec.Checks(rules, asked)
		return nil
	})
}

func begin(ctx context.Context, h *host.Host, command string) plan.Report {
	return plan.Report{
		Schema: plan.Schema, Command: command, Tool: version.String(), Started: h.Now(),
		Machine: plan.Machine{Root: h.Root(), Arch: h.Arch(), Boots: plan.Boots(ctx, h)},
	}
}

// end runs work and completes the report; failed is the result of a run that
// could not begin or did not end.
func end(
	ctx context.Context, h *host.Host, r *plan.Report, failed plan.Result, work func() error,
) (plan.Report, error) {
	err := surface.Named(ctx, work())
	if err != nil {
		r.Result, r.Error = failed, err.Error()
	}
	r.Finished = h.Now()
	return *r, err
}

// detect returns the machine's distribution.
func (o Options) detect(h *host.Host, override string, r *plan.Report) (d distros.Distro, err error) {
	var release distros.Release
	switch {
	case o.Distro == nil:
		d, release, err = distros.Detect(h, override)
	case override != "":
		err = errors.New("the spec and Options both name the distribution; set one of them")
	default:
		d, release, err = o.Distro.ForHost(h)
	}
	r.Machine.Distro, r.Machine.Version = cmp.Or(d.ID, release.ID), release.VersionID
	return d, err
}

// rules returns the machine's rules beside those of scrub.Table.
func (o Options) rules(h *host.Host, override string, r *plan.Report) ([]scrub.Rule, error) {
	switch {
	case o.Command != "":
		return nil, errors.New("Options.Command has no effect on a scrub or an audit")
	case o.Supply != nil || o.SupplyAssets:
		return nil, errors.New("Options.Supply has no effect on a scrub or an audit")
	}
	d, err := o.detect(h, override, r)
	if err != nil {
		return nil, err
	}
	return scrub.Extend(d.ScrubRules(), o.Rules)
}

// change does work that only one process at a time may do to a machine.
func change(h *host.Host, work func() error) error {
	unlock, err := h.Lock()
	if err != nil {
		return err
	}
	err = work()
	// The result is for the disk, so the kernel has to write everything first.
	h.Sync()
	return errors.Join(err, unlock())
}

// command is the program that Provision installs on a machine of an architecture.
// Another program than eksnode cannot configure a node, but a dry run may compare with
// that program.
func (o Options) command(arch string) (string, error) {
	const command = "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode"
	info, ok := debug.ReadBuildInfo()
	switch {
	case o.Command != "":
	case ok && info.Path == command:
		o.Command = "/proc/self/exe" // also when its file was removed
	case o.DryRun:
		return os.Executable()
	default:
		return "", fmt.Errorf("choosing the command that the node gets: the running program is not eksnode; set "+
			"Options.Command to a build of %s for the machine", command)
	}
	if o.DryRun {
		return o.Command, nil
	}
	file, err := os.Open(o.Command)
	if err != nil {
		return "", fmt.Errorf("opening the command that the node gets: %w", err)
	}
	defer file.Close()
	if built := host.ProgramArch(file); built != arch {
		return "", fmt.Errorf("the command that the node gets is built for %s, but the machine is %s: "+
			"name the eksnode for %s, which each release has, with --node-command (in Go: Options.Command)",
			cmp.Or(built, "another system"), arch, arch)
	}
	return o.Command, nil
}
