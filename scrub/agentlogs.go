package scrub

import (
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
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
		{
			ID: "splunk-host", Phase: Identity, Groups: []string{"identity"}, Verb: Report,
			Paths: splunkSettings, Owner: "Splunk's first start",
			Why:         "every node's events would have the builder machine's name as their host",
			Regenerated: "Splunk, when it starts", Source: "Splunk: make a universal forwarder part of a host image, clone-prep-clear-config",
			Find: splunkHosts,
		},
	}
}

var splunkSettings = []string{
	"/opt/splunkforwarder/etc/system/local/inputs.conf", "/opt/splunkforwarder/etc/system/local/server.conf",
	"/opt/splunk/etc/system/local/inputs.conf", "/opt/splunk/etc/system/local/server.conf",
}

// A value with a dollar sign is decided at each start.
var splunkHost = expression(`(?m)^\s*(host|serverName)\s*=\s*[^$\s]`)

func splunkHosts(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for _, name := range splunkSettings {
		text, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		if splunkHost().Match(text) {
			answer.Find(name, "has the builder machine's name: run splunk clone-prep-clear-config, or remove the line")
		}
	}
	return answer, nil
}
