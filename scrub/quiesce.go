package scrub

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// quiesceRules stop programs that would write again after the scrub. They act
// on the live machine only: nothing runs in an image root.
func quiesceRules() []Rule {
	return []Rule{
		{
			ID: "kubelet-running", Phase: Quiesce, Groups: []string{"kubelet"}, Verb: plan.Stop,
			Owner: "systemd", Why: "a running kubelet writes its state again while the scrub removes it",
			Regenerated: "first boot", Source: "KillMode=process: containers run on when the kubelet stops",
			Find: stopUnits(
				"kubelet.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "k0scontroller.service", "k0sworker.service", "etcd.service",
			),
		},
		{
			ID: "writers-running", Phase: Quiesce, Groups: []string{"logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "timers and log daemons write to files that the scrub has just emptied",
			Regenerated: "the next boot", Source: "systemd.unit(5)",
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
			Owner: "systemd", Why: "agents keep their IDs and positions in memory, and write them again when they stop",
			Regenerated: "the next boot", Source: "the agents' own documentation",
			Find: stopUnits(
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
			ID: "meshes-running", Phase: Quiesce, Groups: []string{"identity", "network"}, Verb: Report,
			Owner: "systemd", Why: "these programs write their keys again when they stop; the scrub does not stop them, because your connection may use their network",
			Regenerated: "the next boot", Source: "the programs' own documentation",
			Find: meshesRunning,
		},
		{
			ID: "shutdown-writers", Phase: Quiesce, Groups: []string{"identity", "logs"}, Verb: plan.Stop,
			Owner: "systemd", Why: "these services write when they stop: at shutdown they would write the random seed, login records and clock drift again",
			Regenerated: "the next boot", Source: "systemd-random-seed.service(8), systemd-update-utmp.service(8), wtmpdb(8), chronyd(8)",
			Find: stopUnits(
				"systemd-random-seed.service", "systemd-update-utmp.service", "wtmpdb-update-boot.service",
				"chrony.service", "chronyd.service", "ntpd.service", "ntpsec.service",
			),
		},
		{
			ID: "journal-on-disk", Phase: Quiesce, Groups: []string{"logs"}, Verb: plan.Run,
			Owner: "systemd-journald", Why: "journald keeps its files open and continues to write to disk",
			Regenerated: "the next boot, which flushes the journal to disk again", Source: "journalctl(1), --relinquish-var",
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
			answer.Act(plan.Action{Verb: plan.Stop, Target: u, Reason: "running, and would write again",
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
		answer.Find(u, "the program writes its keys again when it stops: stop the unit before the scrub, or scrub the captured image with --root")
	}
	return answer, err
}

// stopCommand returns the command that stops a unit. On the RHEL family, auditd
// refuses systemctl (RefuseManualStop), so its control program stops it.
func stopCommand(unit string) []string {
	if unit == "auditd.service" {
		return []string{"service", "auditd", "stop"}
	}
	return []string{"systemctl", "stop", unit}
}

// relinquishJournal moves journald to /run. The file "flushed" means that the
// journal is on disk (systemd-journald.service(8)). Before systemd 243 journald
// cannot move: it continues to write to files that the scrub removes, and
// creates none at shutdown.
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
