package scrub

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// agentLogRules are the rules for agents that log outside /var/log, or that
// write the machine's name into their settings.
func agentLogRules() []Rule {
	return []Rule{
		(Rule{
			ID: "agent-logs", Phase: Caches, Groups: []string{"logs"}, Verb: plan.Remove,
			Why:         "the logs name the builder machine, its cluster and the agent's server",
			Regenerated: "the agent", Source: "the agents' own documentation",
		}).of(
			program{"Splunk", []string{"/opt/splunkforwarder/var/log/splunk/*", "/opt/splunk/var/log/splunk/*"}},
			program{"Wazuh, OSSEC", []string{"/var/ossec/logs/*"}},
			program{"Elastic Agent", []string{"/opt/Elastic/Agent/data/elastic-agent-*/logs/*"}},
			program{"Rapid7", []string{"/opt/rapid7/ir_agent/components/*/common/*.log*"}},
			program{"Tenable", []string{"/opt/nessus_agent/var/nessus/logs/*"}},
			program{"Sysdig", []string{"/opt/draios/logs/*"}},
			program{"SentinelOne", []string{"/opt/sentinelone/log/*"}},
		),
		(Rule{
			ID: "host-names", Phase: Identity, Groups: []string{"identity"},
			Why:         "every node would have the builder machine's name for its mail, its events or its server; a name that each start decides stays",
			Regenerated: "the program, when it starts or is installed", Source: "Splunk: clone-prep-clear-config; postconf(5), myhostname; the programs' own documentation",
		}).reports(hostNames),
	}
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
	re := expression(`(?m)^[\t ]*(?:` + strings.Join(settings, "|") + `)[\t ]*[=: ]?[\t ]*(.*)$`)
	return func(text []byte) bool {
		return slices.ContainsFunc(re().FindAllSubmatch(text, -1), func(m [][]byte) bool {
			return slices.ContainsFunc(strings.FieldsFunc(string(m[1]), func(r rune) bool { return strings.ContainsRune("\"', ;:\t\r", r) }), func(word string) bool {
				return word[0] != '$' && word[0] != '#' && !strings.HasPrefix(word, "localhost")
			})
		})
	}
}
