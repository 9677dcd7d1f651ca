package rules

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// agentRules are the rules for a machine's identity in systems of monitoring and security, for
// their logs, and for eksnode's own agent.
func agentRules() []rule.Rule {
	g := []string{"identity", "secrets"}
	return []rule.Rule{
		of(rule.Rule{
			ID: "agent-ids", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Why:         "all nodes would share one ID, one key and one position in each log",
			Regenerated: "the agent, when it starts; an agent of Fleet enrols again", Source: "the agents' own documentation",
		},
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
			program{"Kinesis Agent, Greengrass", []string{"/var/lib/aws-kinesis-agent/*", "/greengrass/v2/*.pem*", "/greengrass/v2/work/*", "/greengrass/v2/ipc.socket", "/greengrass/certs/*"}},
			program{"Google Cloud's Ops Agent", []string{"/var/lib/google-cloud-ops-agent/*"}},
			program{"Logstash, Graylog, Scalyr, Mezmo, Cribl", []string{"/var/lib/logstash/uuid", "/var/lib/logstash/*queue", "/etc/graylog/sidecar/node-id", "/var/lib/graylog-sidecar/*", "/var/lib/scalyr-agent-2/*", "/var/lib/logdna/*", "/var/lib/logdna-agent/*", "/opt/cribl/local/cribl/auth/*", "/opt/cribl/state/*"}},
			program{"Icinga, Zabbix proxies", []string{"/var/lib/icinga2/certs/*", "/var/lib/icinga2/icinga2.state", "/var/lib/icinga2/api/*"}},
			program{"inventory agents", []string{"/var/lib/fusioninventory-agent/*", "/var/lib/glpi-agent/*", "/var/lib/ocsinventory-agent/*", "/var/lib/ocsinventory-client/*"}},
			program{"GitLab Runner, Buildkite", []string{"/etc/gitlab-runner/.runner_system_id", "/var/lib/buildkite-agent/builds/*"}},
			program{"Checkmk", []string{"/var/lib/cmk-agent/registered_connections.json"}},
		),
		of(rule.Rule{
			ID: "log-positions", Phase: rule.Identity, Groups: []string{"identity", "logs"}, Verb: plan.Remove,
			Why:         "a node would begin to read its logs where the builder machine ended, and would send what the builder machine kept back",
			Regenerated: "the program, when it starts", Source: "EC2 Image Builder: clean-up script; the programs' manuals",
		},
			program{"Fluentd", []string{"/var/lib/fluentd/*.pos", "/var/lib/fluentd/buffer/*", "/var/lib/td-agent/*.pos", "/var/lib/td-agent/buffer/*"}},
			program{"Vector, OpenTelemetry Collector", []string{"/var/lib/vector/*", "/var/lib/otelcol/*", "/var/lib/otelcol-contrib/*"}},
			program{"rsyslog, syslog-ng, systemd-journal-upload", []string{"/var/lib/rsyslog/*", "/var/spool/rsyslog/*", "/var/lib/syslog-ng/syslog-ng.persist*", "/var/lib/systemd/journal-upload/state", "/var/lib/private/systemd/journal-upload/state"}},
		),
		of(rule.Rule{
			ID: "device-ids", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Why:         "all nodes would report as the builder machine, with its key",
			Regenerated: "the program, when it starts", Source: "waagent -deprovision; whoopsie(8); fwupd: pki",
		},
			program{"guest agents of Azure and Google Cloud", []string{"/var/lib/waagent/*", "/etc/google_instance_id", "/etc/instance_id"}},
			program{"systemd-homed", []string{"/var/lib/systemd/home/local.*", "/var/cache/systemd/home/*"}},
			program{"whoopsie, fwupd", []string{"/var/lib/whoopsie/whoopsie-id", "/var/lib/fwupd/pki/*", "/var/lib/fwupd/pending.db"}},
		),
		of(rule.Rule{
			ID: "scanner-ids", Phase: rule.Identity, Groups: g, Verb: plan.Remove,
			Why:         "the security console shows all nodes as one, and each report overwrites the last",
			Regenerated: "the agent, when it starts; Wazuh enrols again", Source: "the agents' documentation on golden images",
		},
			program{"Wazuh, OSSEC", []string{
				"/var/ossec/etc/client.keys", "/var/ossec/queue/rids/*", "/var/ossec/queue/fim/db/*", "/var/ossec/queue/syscollector/db/local.db*", "/var/ossec/queue/logcollector/*",
				"/var/ossec/var/run/*.state", "/var/ossec/etc/shared/merged.mg", "/var/ossec/etc/shared/agent.conf",
			}},
			program{"Qualys", []string{"/etc/qualys/hostid"}},
			program{"Tenable", []string{"/etc/tenable_tag", "/opt/nessus_agent/var/nessus/uuid", "/opt/nessus_agent/var/nessus/master.key", "/opt/nessus_agent/var/nessus/global.db*", "/opt/nessus/var/nessus/uuid"}},
			program{"osquery, Fleet", []string{"/var/osquery/osquery.db/*", "/opt/orbit/osquery.db/*", "/opt/orbit/identifier", "/opt/orbit/secret-orbit-node-key.txt"}},
			program{"Rapid7", []string{"/opt/rapid7/ir_agent/components/bootstrap/common/bootstrap.cfg"}},
			program{"Carbon Black EDR", []string{"/var/lib/cb/sensor.id"}},
			program{"Kolide, Lacework", []string{"/var/kolide-k2/*/*.db*", "/var/kolide-k2/*/osquery.db", "/var/lib/lacework/backup/*", "/var/lib/lacework/collector/*"}},
			program{"fail2ban", []string{"/var/lib/fail2ban/fail2ban.sqlite3"}},
		),
		reports(rule.Rule{
			ID: "enrolled-agents", Phase: rule.Identity, Groups: g,
			Why:         "all nodes would be one machine in the console; only the agent's own program can remove its ID and keep its settings",
			Regenerated: "the agent, when it starts", Source: "the agents' documentation on golden images",
		}, enrolledAgents),
		{
			ID: "agent-folders", Phase: rule.Caches, Groups: []string{"caches"}, Verb: plan.Remove,
			Paths: []string{path.Dir(KeptAgent), "/**/" + agentFolder}, Owner: "the Packer plugin",
			Why:         "a session that was cut leaves a copy of eksnode in remote_folder, and a provision one for the next provisioner; a folder with other files is a finding",
			Regenerated: "nothing", Source: "the Packer plugin, which makes the folder",
			Look: agentFolders,
		},
		of(rule.Rule{
			ID: "agent-logs", Phase: rule.Caches, Groups: []string{"logs"}, Verb: plan.Remove,
			Why:         "the logs name the builder machine, its cluster and the agent's server",
			Regenerated: "the agent", Source: "the agents' own documentation",
		},
			program{"Splunk", []string{"/opt/splunkforwarder/var/log/splunk/*", "/opt/splunk/var/log/splunk/*"}},
			program{"Wazuh, OSSEC", []string{"/var/ossec/logs/*"}},
			program{"Elastic Agent", []string{"/opt/Elastic/Agent/data/elastic-agent-*/logs/*"}},
			program{"Rapid7", []string{"/opt/rapid7/ir_agent/components/*/common/*.log*"}},
			program{"Tenable", []string{"/opt/nessus_agent/var/nessus/logs/*"}},
			program{"Sysdig", []string{"/opt/draios/logs/*"}},
			program{"SentinelOne", []string{"/opt/sentinelone/log/*"}},
		),
		reports(rule.Rule{
			ID: "host-names", Phase: rule.Identity, Groups: []string{"identity"},
			Why:         "every node would have the builder machine's name for its mail, its events or its server; a name that each start decides stays",
			Regenerated: "the program, when it starts or is installed", Source: "Splunk: clone-prep-clear-config; postconf(5), myhostname; the programs' own documentation",
		}, hostNames),
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
	{program: "Tanium", paths: []string{"/opt/Tanium/TaniumClient/client.db", "/opt/Tanium/TaniumClient/pki.db", "/opt/Tanium/TaniumClient/TaniumClient.ini"}, advice: "run TaniumClient config remove ComputerID and RegistrationCount, and remove client.db"},
	{program: "BigFix", paths: []string{"/var/opt/BESClient/besclient.config", "/var/opt/BESClient/__BESData"}, advice: "stop besclient, remove __BESData, and remove the computer's ID from besclient.config"},
	{program: "Ivanti", paths: []string{"/opt/landesk/etc/guid", "/opt/landesk/etc/landesk.conf"}, advice: "install the agent at first boot"},
	{program: "ManageEngine", paths: []string{"/usr/local/manageengine/uems_agent/*.json", "/usr/local/manageengine/uems_agent/data"}, advice: "install the agent at first boot"},
	{program: "Automox", paths: []string{"/var/lib/amagent/*", "/opt/amagent/amagent.db"}, advice: "run amagent --deregister"},
	{program: "Azure Arc", paths: []string{"/var/opt/azcmagent/agentconfig.json", "/var/opt/azcmagent/certs/*"}, advice: "run azcmagent disconnect --force-local-only"},
	{program: "Azure Monitor Agent", paths: []string{"/etc/opt/microsoft/azuremonitoragent/config-cache/*", "/var/opt/microsoft/azuremonitoragent/events/*"}, advice: "install the agent at first boot"},
	{program: "AppDynamics", paths: []string{"/opt/appdynamics/machine-agent/conf/controller-info.xml"}, says: saying(`<(account-access-key|unique-host-id)>[^<\s]`), advice: "remove unique-host-id and the access key"},
	{program: "Instana", paths: []string{"/opt/instana/agent/etc/instana/com.instana.agent.main.sender.Backend.cfg"}, says: saying(`(?m)^key\s*=\s*\S`), advice: "remove the key, and give it to the agent at first boot"},
	{program: "Site24x7", paths: []string{"/opt/site24x7/monagent/conf/monagent.cfg"}, advice: "remove agent_key, or install the agent at first boot"},
	{program: "Uptycs", paths: []string{"/etc/osquery/secret", "/etc/osquery/ca.crt", "/opt/uptycs/etc/flags/*"}, advice: "install the agent at first boot"},
	{program: "Lacework", paths: []string{"/var/lib/lacework/config/config.json"}, advice: "give the access token to the agent at first boot"},
	{program: "Sysdig", paths: []string{"/opt/draios/etc/dragent.yaml"}, says: saying(`(?m)^\s*customerid\s*:\s*\S`), advice: "give the access key to the agent at first boot"},
	{program: "Prisma Cloud", paths: []string{"/var/lib/twistlock/certificates/*", "/var/lib/twistlock/local.db"}, advice: "install the defender at first boot"},
	{program: "Aqua", paths: []string{"/opt/aquasec/.secret/*", "/opt/aquasec/data/*"}, advice: "install the enforcer at first boot"},
	{program: "Guardicore", paths: []string{"/var/lib/guardicore/*"}, advice: "install the agent at first boot"},
	{program: "Illumio", paths: []string{"/opt/illumio_ven_data/etc/agent_id.cfg", "/opt/illumio_ven_data/etc/certs/*"}, advice: "run illumio-ven-ctl prepare-golden-image"},
	{program: "Cisco Secure Endpoint", paths: []string{"/opt/cisco/amp/etc/local.xml"}, advice: "remove local.xml while the agent is stopped"},
	{program: "Trellix HX", paths: []string{"/var/lib/fireeye/xagt/main.db*"}, advice: "remove the database while xagt is stopped"},
	{program: "ESET", paths: []string{"/var/opt/eset/RemoteAdministrator/Agent/*", "/var/opt/eset/eea/*"}, advice: "reset the cloned agent in the console, or install it at first boot"},
	{program: "Bitdefender", paths: []string{"/opt/bitdefender-security-tools/etc/epag.jso*", "/opt/BitDefender/etc/bdepsecurity*"}, advice: "install the agent at first boot"},
	{program: "Kaspersky", paths: []string{"/var/opt/kaspersky/*"}, advice: "prepare the agent for cloning with klmover -cloningmode 1"},
	{program: "Symantec", paths: []string{"/etc/symantec/sep/sep_host_id", "/etc/Symantec.conf"}, advice: "remove the hardware ID"},
	{program: "Cybereason", paths: []string{"/opt/cybereason/sensor/etc/sensor.conf", "/opt/cybereason/sensor/var/*"}, advice: "install the sensor at first boot"},
	{program: "Centrify or Delinea", paths: []string{"/var/centrifydc/*", "/var/centrify/cloud/*"}, advice: "run adleave or cunenroll"},
	{program: "Duo", paths: []string{"/etc/duo/pam_duo.conf", "/etc/duo/login_duo.conf"}, says: saying(`(?m)^\s*skey\s*=\s*\S`), advice: "write the keys at first boot"},
	{program: "Octopus", paths: []string{"/etc/octopus/*/*.config"}, advice: "register the tentacle at first boot"},
	{program: "GitLab Runner", paths: []string{"/etc/gitlab-runner/config.toml"}, says: saying(`(?m)^\s*token\s*=`), advice: "run gitlab-runner unregister --all-runners"},
	{program: "GitHub Actions runner", paths: []string{"/opt/actions-runner/.credentials*", "/opt/actions-runner/.runner", "~/actions-runner/.credentials*", "~/actions-runner/.runner"}, advice: "run config.sh remove"},
	{program: "Buildkite", paths: []string{"/etc/buildkite-agent/buildkite-agent.cfg"}, says: saying(`(?m)^\s*token="?[^"x\s]`), advice: "write the token at first boot"},
	{program: "TeamCity", paths: []string{"/opt/buildagent/conf/buildAgent.properties"}, says: saying(`(?m)^authorizationToken=\S`), advice: "remove authorizationToken and name"},
	{program: "NetBackup", paths: []string{"/usr/openv/var/vxss/*", "/usr/openv/netbackup/bp.conf"}, advice: "install the client at first boot"},
	{program: "Commvault", paths: []string{"/etc/CommVaultRegistry/*"}, advice: "install the client at first boot"},
	{program: "Veeam", paths: []string{"/var/lib/veeam/veeam_db.sqlite*"}, advice: "remove the database while veeamservice is stopped"},
	{program: "Rubrik or Cohesity", paths: []string{"/etc/rubrik/keys/*", "/etc/cohesity-agent/*"}, advice: "install the agent at first boot"},
	{program: "Acronis", paths: []string{"/var/lib/Acronis/*", "/etc/Acronis/*"}, advice: "register the agent at first boot"},
	{program: "Flexera or Snow", paths: []string{"/var/opt/managesoft/*", "/opt/snow/data/*"}, advice: "install the agent at first boot"},
	{program: "a Kerberos key server", paths: []string{"/var/kerberos/krb5kdc/principal*", "/var/kerberos/krb5kdc/.k5*", "/var/lib/krb5kdc/principal*", "/etc/krb5kdc/stash", "/etc/krb5kdc/.k5*"}, advice: "run kdb5_util destroy"},
}

// KeptAgent is the agent that a provision leaves for the next provisioner of a build. Only
// root can enter its folder.
const KeptAgent = "/run/eksnode-agent/eksnode"

const agentFolder = "eksnode-" + hex4 + hex4 + hex4 + hex4

const hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"

// noAgents are folders without agents: of the kernel, and of containers' files.
var noAgents = []string{"/proc", "/sys", "/dev", "/run", "/var/lib/containerd", "/var/lib/docker", "/var/lib/containers"}

func agentFolders(d *rule.Draft) {
	d.Plan(plan.Remove, d.Paths[0], "the agent that a provision kept")
	var errs []error
	d.Walk(func(e host.Entry) error {
		switch {
		case !e.IsDir():
			return nil
		case slices.Contains(noAgents, e.Path):
			return fs.SkipDir
		case !rule.Kept([]string{agentFolder}, path.Base(e.Path)):
			return nil
		}
		own, err := onlyAgent(d.Host, e.Path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case own:
			d.Remove(e.Path, "the agent of a session that was cut")
		default:
			d.Find(e.Path, "has the name of the agent's folder, and other files: look at them and remove the folder")
		}
		return fs.SkipDir
	})
	d.Failed(errors.Join(errs...))
}

func onlyAgent(h *host.Host, folder string) (bool, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(entries, func(e fs.FileInfo) bool { return e.Name() != "eksnode" || !e.Mode().IsRegular() }), nil
}

// RemoveAgents removes the agents that sessions left in a folder, and the one that a
// provision kept.
func RemoveAgents(h *host.Host, folder string) error {
	entries, err := afero.ReadDir(h.Files, folder)
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if !e.IsDir() || !rule.Kept([]string{agentFolder}, e.Name()) {
			continue
		}
		own, failed := onlyAgent(h, name)
		if own {
			_, failed = h.Files.RemoveTree(name)
		}
		err = errors.Join(err, rule.IgnoreMissing(failed))
	}
	_, failed := h.Files.RemoveTree(path.Dir(KeptAgent))
	return errors.Join(err, rule.IgnoreMissing(failed))
}

// hostNames are settings into which a program or its package writes the machine's
// name.
var hostNames = []leftover{
	{program: "Splunk", paths: []string{"/opt/splunkforwarder/etc/system/local/*.conf", "/opt/splunk/etc/system/local/*.conf"}, says: names("host", "serverName"), advice: "run splunk clone-prep-clear-config, or remove the line with the name"},
	{program: "Postfix", paths: []string{"/etc/postfix/main.cf"}, says: names("myhostname", "mydomain", "mydestination"), advice: "remove the machine's name from myhostname and mydestination"},
	{program: "a mail server", paths: []string{"/etc/mailname"}, says: names(""), advice: "replace the name with localhost, or write it at first boot"},
	{program: "Exim", paths: []string{"/etc/exim4/update-exim4.conf.conf"}, says: names("dc_other_hostnames", "dc_readhost"), advice: "remove the machine's name"},
	{program: "Landscape", paths: []string{"/etc/landscape/client.conf"}, says: names("computer_title"), advice: "remove computer_title, or set it at first boot"},
	{program: "Puppet", paths: []string{"/etc/puppetlabs/puppet/puppet.conf", "/etc/puppet/puppet.conf"}, says: names("certname", "node_name_value"), advice: "remove certname"},
	{program: "Chef or Cinc", paths: []string{"/etc/chef/client.rb", "/etc/cinc/client.rb"}, says: names("node_name"), advice: "remove node_name"},
	{program: "Salt", paths: []string{"/etc/salt/minion", "/etc/salt/minion.d/*.conf"}, says: names("id"), advice: "remove id"},
	{program: "Datadog", paths: []string{"/etc/datadog-agent/datadog.yaml"}, says: names("hostname"), advice: "remove hostname"},
	{program: "collectd", paths: []string{"/etc/collectd.conf", "/etc/collectd/collectd.conf"}, says: names("Hostname"), advice: "remove Hostname"},
	{program: "Telegraf", paths: []string{"/etc/telegraf/telegraf.conf"}, says: names("hostname"), advice: "remove hostname"},
	{program: "Icinga", paths: []string{"/etc/icinga2/constants.conf"}, says: names("const NodeName"), advice: "remove NodeName, or write it at first boot"},
}

// names reports whether one of these settings has the name of a machine: no
// variable, and not localhost. Without a setting, the whole line is the value.
func names(settings ...string) func([]byte) bool {
	re := rule.Expression(`(?m)^[\t ]*(?:` + strings.Join(settings, "|") + `)[\t ]*[=: ]?[\t ]*(.*)$`)
	return func(text []byte) bool {
		return slices.ContainsFunc(re().FindAllSubmatch(text, -1), func(m [][]byte) bool {
			return slices.ContainsFunc(strings.FieldsFunc(string(m[1]), func(r rune) bool { return strings.ContainsRune("\"', ;:\t\r", r) }), func(word string) bool {
				return word[0] != '$' && word[0] != '#' && !strings.HasPrefix(word, "localhost")
			})
		})
	}
}
