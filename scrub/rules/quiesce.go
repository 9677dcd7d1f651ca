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

// quiesceRules stop programs that would write again after the scrub. They act
// on the live machine only: nothing runs in an image root.
func quiesceRules() []rule.Rule {
	return []rule.Rule{
		{
			ID: "kubelet-running", Phase: rule.Quiesce, Groups: []string{"kubelet"}, Verb: plan.Stop,
			Owner: "systemd", Why: "a running kubelet writes its state again while the scrub removes it",
			Regenerated: "first boot", Source: "KillMode=process: containers run on when the kubelet stops",
			Look: stopUnits(
				"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "k0scontroller.service", "k0sworker.service", "etcd.service",
			),
		},
		{
			ID: "writers-running", Phase: rule.Quiesce, Groups: []string{"logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "timers and log daemons write to files that the scrub has just emptied",
			Regenerated: "the next boot", Source: "systemd.unit(5)",
			Look: stopUnits(
				"apt-daily.timer", "apt-daily-upgrade.timer", "apt-daily.service", "apt-daily-upgrade.service",
				"unattended-upgrades.service", "dnf-makecache.timer", "dnf-makecache.service", "man-db.timer",
				"logrotate.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "sysstat.service", "cron.service", "crond.service", "atd.service",
				"rsyslog.service", "syslog-ng.service", "auditd.service", "update-notifier-download.timer",
				"motd-news.timer", "fwupd-refresh.timer", "plocate-updatedb.timer", "snapd.snap-repair.timer", "anacron.timer",
			),
		},
		{
			ID: "agents-running", Phase: rule.Quiesce, Groups: []string{"identity", "logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "agents keep their IDs and positions in memory, and write them again when they stop",
			Regenerated: "the next boot", Source: "the agents' own documentation",
			Look: stopUnits(
				"amazon-cloudwatch-agent.service", "datadog-agent.service", "filebeat.service", "metricbeat.service", "auditbeat.service", "packetbeat.service",
				"fluent-bit.service", "fluentd.service", "td-agent.service", "alloy.service", "promtail.service", "newrelic-infra.service",
				"SplunkForwarder.service", "splunk.service", "netdata.service", "cmk-agent-ctl-daemon.service", "wazuh-agent.service",
				"qualys-cloud-agent.service", "nessusagent.service", "osqueryd.service", "puppet.service", "chef-client.service", "salt-minion.service",
				"elastic-agent.service", "oneagent.service", "grafana-agent.service", "vector.service", "otelcol.service", "otelcol-contrib.service", "collector.service",
				"landscape-client.service", "rhsmcertd.service", "insights-client.timer", "certmonger.service", "whoopsie.service", "fwupd.service", "fail2ban.service",
				"orbit.service", "ir_agent.service", "cinc-client.service", "venv-salt-minion.service", "cfengine3.service", "codedeploy-agent.service", "ecs.service", "awslogsd.service",
				"snapd.socket", "snapd.service",
			),
		},
		{
			ID: "meshes-running", Phase: rule.Quiesce, Groups: []string{"identity", "network"}, Verb: rule.Report,
			Owner: "systemd", Why: "these programs write their keys again when they stop; the scrub does not stop them, because your connection may use their network",
			Regenerated: "the next boot", Source: "the programs' own documentation",
			Look: meshesRunning,
		},
		{
			ID: "shutdown-writers", Phase: rule.Quiesce, Groups: []string{"identity", "logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "these services write when they start or stop: until the shutdown they would write the random seed, login records and clock drift again",
			Regenerated: "the next boot", Source: "systemd-random-seed.service(8), systemd-update-utmp.service(8), wtmpdb(8), chronyd(8)",
			Look: stopUnits(
				"systemd-random-seed.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service", "wtmpdb-update-boot.service",
				"chrony.service", "chronyd.service", "ntpd.service", "ntpsec.service",
			),
		},
		{
			ID: "journal-on-disk", Phase: rule.Quiesce, Groups: []string{"logs"}, Verb: plan.Run,
			Owner: "systemd-journald", Why: "journald keeps its files open and continues to write to disk",
			Regenerated: "the next boot, which flushes the journal to disk again", Source: "journalctl(1), --relinquish-var",
			Look: relinquishJournal,
		},
	}
}

func stopUnits(units ...string) func(*rule.Draft) {
	return func(d *rule.Draft) {
		for _, u := range running(d, units...) {
			d.Act(plan.Action{Verb: plan.Stop, Target: u, Reason: "running or about to start, and would write again",
				Do: func(ctx context.Context, _ plan.Progress) error { return stopUnit(ctx, d.Host, u) }})
		}
	}
}

func meshesRunning(d *rule.Draft) {
	for _, u := range running(d,
		"tailscaled.service", "zerotier-one.service", "teleport.service", "spire-agent.service", "consul.service",
		"nomad.service",
	) {
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
	d.Act(plan.Action{Verb: plan.Run, Target: "journalctl --relinquish-var", Reason: "journald writes its journal to disk",
		Do: func(ctx context.Context, _ plan.Progress) error {
			_, err := d.Host.Run(ctx, host.Command{Argv: []string{"journalctl", "--relinquish-var"}})
			return err
		}})
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
