package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// agentRules are the rules for a machine's identity in systems of monitoring
// and security.
func agentRules() []Rule {
	g := []string{"identity", "secrets"}
	return []Rule{
		(Rule{
			ID: "agent-ids", Phase: Identity, Groups: g, Verb: plan.Remove,
			Why:         "all nodes would share one ID, one key and one position in each log",
			Regenerated: "the agent, when it starts; an agent of Fleet enrols again", Source: "the agents' own documentation",
		}).of(
			program{"Datadog", []string{"/etc/datadog-agent/auth_token", "/etc/datadog-agent/auth/*", "/etc/datadog-agent/ipc_cert.pem", "/etc/datadog-agent/install.json", "/opt/datadog-agent/run/*"}},
			program{"CloudWatch", []string{"/opt/aws/amazon-cloudwatch-agent/logs/*.log*", "/opt/aws/amazon-cloudwatch-agent/logs/state/*", "/var/lib/awslogs/agent-state", "/var/awslogs/state/agent-state"}},
			program{"Elastic's Beats", []string{"/var/lib/*beat/meta.json", "/var/lib/*beat/*.lock", "/var/lib/*beat/registry"}},
			program{"Elastic Agent", []string{
				"/opt/Elastic/Agent/fleet.enc", "/opt/Elastic/Agent/fleet.enc.lock", "/opt/Elastic/Agent/fleet.yml", "/opt/Elastic/Agent/vault/*", "/opt/Elastic/Agent/data/elastic-agent-*/state.enc", "/opt/Elastic/Agent/data/elastic-agent-*/run/*",
				"/etc/elastic-agent/fleet.enc", "/etc/elastic-agent/fleet.enc.lock", "/etc/elastic-agent/vault/*", "/var/lib/elastic-agent/fleet.enc", "/var/lib/elastic-agent/vault/*",
				"/var/lib/elastic-agent/data/elastic-agent-*/state.enc", "/var/lib/elastic-agent/data/elastic-agent-*/run/*",
			}},
			program{"Dynatrace", []string{"/var/lib/dynatrace/oneagent/agent/config/*.id", "/var/lib/dynatrace/oneagent/datastorage/*", "/var/lib/dynatrace/enrichment/*"}},
			program{"amazon-efs-utils", []string{"/etc/amazon/efs/privateKey.pem"}},
			program{"Fluent Bit", []string{"/var/fluent-bit/state/*", "/var/lib/fluent-bit/*"}},
			program{"Grafana's agents", []string{"/var/lib/alloy/data/*", "/var/lib/grafana-agent/*", "/var/lib/promtail/positions.yaml"}},
			program{"New Relic", []string{"/var/db/newrelic-infra/data/*", "/var/db/newrelic-infra/newrelic-integrations/logging/*.db*"}},
			program{"Cockpit", []string{"/etc/cockpit/ws-certs.d/0-self-signed*", "/etc/cockpit/machines.d/99-webui.json"}},
			program{"fapolicyd", []string{"/var/lib/fapolicyd/*.mdb"}},
			program{"collectd", []string{"/var/lib/collectd/rrd/*"}},
			program{"Splunk", []string{
				"/opt/splunkforwarder/etc/instance.cfg", "/opt/splunkforwarder/var/lib/splunk/fishbucket/*", "/opt/splunkforwarder/etc/auth/server.pem",
				"/opt/splunk/etc/instance.cfg", "/opt/splunk/var/lib/splunk/fishbucket/*",
			}},
			program{"Sumo Logic", []string{"/opt/SumoCollector/config/creds/*"}},
			program{"Netdata", []string{"/var/lib/netdata/registry/netdata.public.unique.id", "/var/lib/netdata/cloud.d/*"}},
			program{"Checkmk", []string{"/var/lib/cmk-agent/registered_connections.json"}},
		),
		(Rule{
			ID: "log-positions", Phase: Identity, Groups: []string{"identity", "logs"}, Verb: plan.Remove,
			Why:         "a node would begin to read its logs where the builder machine ended, and would send what the builder machine kept back",
			Regenerated: "the program, when it starts", Source: "EC2 Image Builder: clean-up script; the programs' manuals",
		}).of(
			program{"Fluentd", []string{"/var/lib/fluentd/*.pos", "/var/lib/fluentd/buffer/*", "/var/lib/td-agent/*.pos", "/var/lib/td-agent/buffer/*"}},
			program{"Vector, OpenTelemetry Collector", []string{"/var/lib/vector/*", "/var/lib/otelcol/*", "/var/lib/otelcol-contrib/*"}},
			program{"rsyslog, syslog-ng, systemd-journal-upload", []string{"/var/lib/rsyslog/*", "/var/spool/rsyslog/*", "/var/lib/syslog-ng/syslog-ng.persist*", "/var/lib/systemd/journal-upload/state", "/var/lib/private/systemd/journal-upload/state"}},
		),
		(Rule{
			ID: "device-ids", Phase: Identity, Groups: g, Verb: plan.Remove,
			Why:         "all nodes would report as the builder machine, with its key",
			Regenerated: "the program, when it starts", Source: "waagent -deprovision; whoopsie(8); fwupd: pki",
		}).of(
			program{"guest agents of Azure and Google Cloud", []string{"/var/lib/waagent/*", "/etc/google_instance_id", "/etc/instance_id"}},
			program{"whoopsie, fwupd", []string{"/var/lib/whoopsie/whoopsie-id", "/var/lib/fwupd/pki/*", "/var/lib/fwupd/pending.db"}},
		),
		(Rule{
			ID: "scanner-ids", Phase: Identity, Groups: g, Verb: plan.Remove,
			Why:         "the security console shows all nodes as one, and each report overwrites the last",
			Regenerated: "the agent, when it starts; Wazuh enrols again", Source: "the agents' documentation on golden images",
		}).of(
			program{"Wazuh, OSSEC", []string{
				"/var/ossec/etc/client.keys", "/var/ossec/queue/rids/*", "/var/ossec/queue/fim/db/*", "/var/ossec/queue/syscollector/db/local.db*", "/var/ossec/queue/logcollector/*",
				"/var/ossec/var/run/*.state", "/var/ossec/etc/shared/merged.mg", "/var/ossec/etc/shared/agent.conf",
			}},
			program{"Qualys", []string{"/etc/qualys/hostid"}},
			program{"Tenable", []string{"/etc/tenable_tag", "/opt/nessus_agent/var/nessus/uuid", "/opt/nessus_agent/var/nessus/master.key", "/opt/nessus_agent/var/nessus/global.db*", "/opt/nessus/var/nessus/uuid"}},
			program{"osquery, Fleet", []string{"/var/osquery/osquery.db/*", "/opt/orbit/osquery.db/*", "/opt/orbit/identifier", "/opt/orbit/secret-orbit-node-key.txt"}},
			program{"Rapid7", []string{"/opt/rapid7/ir_agent/components/bootstrap/common/bootstrap.cfg"}},
			program{"Carbon Black EDR", []string{"/var/lib/cb/sensor.id"}},
			program{"fail2ban", []string{"/var/lib/fail2ban/fail2ban.sqlite3"}},
		),
		{
			ID: "enrolled-agents", Phase: Identity, Groups: g, Verb: Report,
			Paths: pathsOf(enrolledAgents), Owner: "agents of endpoint security, Kerberos key servers",
			Why:         "all nodes would be one machine in the console; only the agent's own program can remove its ID and keep its settings",
			Regenerated: "the agent, when it starts", Source: "the agents' documentation on golden images",
			Find: reportEach(enrolledAgents),
		},
	}
}

// enrolledAgents are agents that keep their ID beside settings in one file, or
// in files of no documented form.
var enrolledAgents = []leftover{
	{program: "CrowdStrike Falcon", paths: []string{"/opt/CrowdStrike/falconstore", "/opt/CrowdStrike/falconstore.bak"}, advice: "run /opt/CrowdStrike/falconctl -d -f --aid, then skip the rule enrolled-agents"},
	{program: "SentinelOne", paths: []string{"/opt/sentinelone/configuration/*.json", "/opt/sentinelone/configuration/*.conf"}, advice: "install the agent at first boot, or use an installation that never started and skip the rule enrolled-agents"},
	{program: "Microsoft Defender for Endpoint", paths: []string{"/etc/opt/microsoft/mdatp/mdatp_onboard.json"}, advice: "offboard the machine, and onboard at first boot"},
	{program: "Microsoft Monitoring Agent", paths: []string{"/etc/opt/microsoft/omsagent/*/certs/oms.key"}, advice: "run /opt/microsoft/omsagent/bin/omsadmin.sh -X"},
	{program: "Trend Micro Deep Security", paths: []string{"/var/opt/ds_agent/dsa_core/ds_agent_dsm.crt"}, advice: "run /opt/ds_agent/dsa_control -r"},
	{program: "JumpCloud", paths: []string{"/opt/jc/jcagent.conf", "/opt/jc/client.key"}, advice: "install the agent at first boot"},
	{program: "Cortex XDR", paths: []string{"/opt/traps/persist/*"}, advice: "install the agent at first boot, or with the option for golden images and skip the rule enrolled-agents"},
	{program: "Carbon Black Cloud", paths: []string{"/var/opt/carbonblack/psc/registration.ini", "/var/opt/carbonblack/psc/store/*"}, advice: "install the agent at first boot"},
	{program: "Sophos", paths: []string{"/opt/sophos-spl/base/etc/machine_id.txt", "/opt/sophos-spl/base/etc/sophosspl/mcs.config"}, advice: "install the agent at first boot, or with the option for golden images and skip the rule enrolled-agents"},
	{program: "Trellix", paths: []string{"/etc/ma.d/EPOAGENT3000/config.xml", "/var/McAfee/agent/db/*.db"}, advice: "run /opt/McAfee/agent/bin/maconfig -enforce -noguid"},
	{program: "a Kerberos key server", paths: []string{"/var/kerberos/krb5kdc/principal*", "/var/kerberos/krb5kdc/.k5*", "/var/lib/krb5kdc/principal*", "/etc/krb5kdc/stash", "/etc/krb5kdc/.k5*"}, advice: "run kdb5_util destroy"},
}
