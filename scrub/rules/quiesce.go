package rules

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

func stopUnits(units []string) func(*rule.Draft) {
	return func(d *rule.Draft) {
		for _, u := range running(d, units...) {
			d.Act(plan.Action{Verb: plan.Stop, Target: u, Reason: "running or about to start, and would write again",
				Do: func(ctx context.Context, _ plan.Progress) error { return stopUnit(ctx, d.Host, u) }})
		}
	}
}

func meshesRunning(d *rule.Draft) {
	for _, u := range running(d, rowOf("meshes-running").Units...) {
		d.Find(u, "the program writes its keys again when it stops: stop the unit before the scrub, "+
			"or scrub the captured image with --root")
	}
}

// stopUnit stops a unit, and first the sockets, timers and paths that start the
// unit again: journald sends every line to syslog.socket, which starts rsyslog. On
// the RHEL family, auditd refuses systemctl (RefuseManualStop), so its control
// program stops it.
func stopUnit(ctx context.Context, h *host.Host, unit string) error {
	argv := []string{"service", "auditd", "stop"}
	if unit != "auditd.service" {
		triggers, err := h.UnitProperty(ctx, "TriggeredBy", unit)
		if err != nil {
			return err
		}
		argv = slices.Concat([]string{"systemctl", "stop"}, strings.Fields(triggers[0]), []string{unit})
	}
	_, err := h.Run(ctx, host.Command{Argv: argv})
	return err
}

// relinquishJournal moves journald to /run. The file "flushed" means that the
// journal is on disk (systemd-journald.service(8)). Before systemd 243 journald
// cannot move: it continues to write to files that the scrub removes, and
// creates none at shutdown.
func relinquishJournal(d *rule.Draft) {
	if !d.Host.HasSystemd() || !d.Exists("/run/systemd/journal/flushed") || !d.Exists("/var/log/journal") {
		return
	}
	help, err := d.Host.Run(d.Ctx, host.Command{Argv: []string{"journalctl", "--help"}})
	if d.Failed(err) || !bytes.Contains(help, []byte("--relinquish-var")) {
		return
	}
	d.Act(plan.Command(d.Host, "journald writes its journal to disk", "journalctl", "--relinquish-var"))
}

// running are those of some units that run, or that a boot has yet to start: a scrub
// soon after a boot meets both. Without systemd, none does.
func running(d *rule.Draft, units ...string) []string {
	if !d.Host.HasSystemd() {
		return nil
	}
	active, err := d.Host.Active(d.Ctx, units...)
	d.Failed(err)
	queued, err := d.Host.Queued(d.Ctx)
	d.Failed(err)
	for _, u := range queued {
		if slices.Contains(units, u) && !slices.Contains(active, u) {
			active = append(active, u)
		}
	}
	return active
}
