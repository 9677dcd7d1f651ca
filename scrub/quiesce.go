package scrub

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// quiesceRules stop what would write again after the scrub has looked. They
// act on the live machine only: nothing runs on a mounted root.
func quiesceRules() []Rule {
	return []Rule{
		{
			ID: "kubelet-running", Phase: Quiesce, Groups: []string{"kubelet"}, Verb: plan.Stop,
			Owner: "systemd", Why: "a running kubelet writes its state again while it is being removed",
			Regenerated: "first boot starts it", Source: "KillMode=process keeps pods alive over the kubelet",
			Find: stopUnits("kubelet.service"),
		},
		{
			ID: "writers-running", Phase: Quiesce, Groups: []string{"logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "timers and log daemons write into what has just been emptied",
			Regenerated: "the next boot starts them", Source: "systemd.unit(5)",
			Find: stopUnits(
				"apt-daily.timer", "apt-daily-upgrade.timer", "apt-daily.service", "apt-daily-upgrade.service",
				"unattended-upgrades.service", "dnf-makecache.timer", "dnf-makecache.service", "man-db.timer",
				"logrotate.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "sysstat.service", "cron.service", "crond.service", "atd.service",
				"rsyslog.service", "syslog-ng.service", "auditd.service", "update-notifier-download.timer",
				"motd-news.timer", "fwupd-refresh.timer", "plocate-updatedb.timer", "snapd.snap-repair.timer", "anacron.timer",
			),
		},
		{
			ID: "agents-running", Phase: Quiesce, Groups: []string{"identity", "logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "agents have their ids and places in memory, and write them again when they stop",
			Regenerated: "the next boot starts them", Source: "the agents' own documentation",
			Find: stopUnits(
				"amazon-cloudwatch-agent.service", "datadog-agent.service", "filebeat.service", "metricbeat.service", "auditbeat.service", "packetbeat.service",
				"fluent-bit.service", "fluentd.service", "td-agent.service", "alloy.service", "promtail.service", "newrelic-infra.service",
				"SplunkForwarder.service", "splunk.service", "netdata.service", "cmk-agent-ctl-daemon.service", "wazuh-agent.service",
				"qualys-cloud-agent.service", "nessusagent.service", "osqueryd.service", "puppet.service", "chef-client.service", "salt-minion.service",
			),
		},
		{
			ID: "meshes-running", Phase: Quiesce, Groups: []string{"identity", "network"}, Verb: Report,
			Owner: "systemd", Why: "what joins private networks writes its keys again when it stops; and it may be what you are connected by, so it is not stopped here",
			Regenerated: "the next boot starts them", Source: "the programs' own documentation",
			Find: meshesRunning,
		},
		{
			ID: "shutdown-writers", Phase: Quiesce, Groups: []string{"identity", "logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "these write when they stop, so at shutdown they would put back the random seed, login records and the clock's drift",
			Regenerated: "the next boot starts them", Source: "systemd-random-seed.service(8), systemd-update-utmp.service(8), wtmpdb(8), chronyd(8)",
			Find: stopUnits(
				"systemd-random-seed.service", "systemd-update-utmp.service", "wtmpdb-update-boot.service",
				"chrony.service", "chronyd.service", "ntpd.service", "ntpsec.service",
			),
		},
		{
			ID: "journal-on-disk", Phase: Quiesce, Groups: []string{"logs"}, Verb: plan.Run,
			Owner: "systemd-journald", Why: "journald holds its files open and goes on writing to disk",
			Regenerated: "the next boot flushes the journal to disk again", Source: "journalctl(1), --relinquish-var",
			Find: relinquishJournal,
		},
	}
}

func stopUnits(units ...string) func(context.Context, *host.Host) (plan.Answer, error) {
	return func(ctx context.Context, h *host.Host) (plan.Answer, error) {
		if !h.HasSystemd() {
			return plan.Answer{}, nil
		}
		active, err := h.Active(ctx, units...)
		if err != nil {
			return plan.Answer{}, err
		}
		var answer plan.Answer
		for _, u := range active {
			answer.Act(plan.Action{Verb: plan.Stop, Target: u, Reason: "it is running and would write again",
				Do: func(ctx context.Context, _ plan.Progress) error {
					_, err := h.Run(ctx, host.Command{Argv: stopCommand(u)})
					return err
				}})
		}
		return answer, nil
	}
}

func meshesRunning(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if !h.HasSystemd() {
		return plan.Answer{}, nil
	}
	active, err := h.Active(ctx, "tailscaled.service", "zerotier-one.service", "teleport.service", "spire-agent.service", "consul.service", "nomad.service")
	var answer plan.Answer
	for _, u := range active {
		answer.Find(u, "it writes its keys again when it stops: stop it before, or scrub the captured image with --root")
	}
	return answer, err
}

// stopCommand stops a unit; auditd refuses systemctl (RefuseManualStop) on the
// RHEL family and is ended by its control program instead.
func stopCommand(unit string) []string {
	if unit == "auditd.service" {
		return []string{"service", "auditd", "stop"}
	}
	return []string{"systemctl", "stop", unit}
}

// relinquishJournal moves journald to /run. "flushed" is the mark that it has
// moved to disk (systemd-journald.service(8)).
// One that cannot, before systemd 243, goes on in files that have no name any
// more when they are removed, and makes none at shutdown.
func relinquishJournal(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if !h.HasSystemd() {
		return plan.Answer{}, nil
	}
	for _, p := range []string{"/run/systemd/journal/flushed", "/var/log/journal"} {
		if there, err := h.Exists(p); err != nil || !there {
			return plan.Answer{}, err
		}
	}
	help, err := h.Run(ctx, host.Command{Argv: []string{"journalctl", "--help"}})
	if err != nil || !bytes.Contains(help, []byte("--relinquish-var")) {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Run, Target: "journalctl --relinquish-var", Reason: "journald writes its journal to disk",
		Do: func(ctx context.Context, _ plan.Progress) error {
			_, err := h.Run(ctx, host.Command{Argv: []string{"journalctl", "--relinquish-var"}})
			return err
		}}), nil
}
