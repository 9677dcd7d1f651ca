package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// membershipRules are the rules for a machine's identity in other systems:
// domains, subscriptions, configuration management, monitoring and private
// networks. Where possible, each program creates a new identity if it finds
// none. Steps that need a person, such as joining a domain, need the person
// with a copied identity too.
func membershipRules() []Rule {
	g := []string{"identity"}
	return []Rule{
		{
			ID: "domain-membership", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/etc/krb5.keytab", "/var/lib/sss/db/*", "/var/lib/sss/mc/*", "/var/lib/sss/secrets/*", "/var/lib/samba/private/secrets.tdb",
				"/var/lib/samba/private/passdb.tdb", "/var/lib/ipa-client/sysrestore/*",
			}, Owner: "realmd, sssd, Samba, ipa-client",
			Why:         "every node would act as the builder machine's account in the domain, with its keys and its cache of people",
			Regenerated: "joining the domain", Source: "virt-sysprep: kerberos-hostkeytab, sssd-db-log, samba-db-log, ipa-client",
		},
		{
			ID: "subscription", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/etc/pki/consumer/*", "/etc/pki/entitlement/*", "/var/lib/rhsm/facts/*", "/var/lib/rhsm/cache/*", "/etc/sysconfig/rhn/systemid",
				"/var/lib/ubuntu-advantage/private/machine-token.json",
			}, Owner: "subscription-manager, Ubuntu Pro",
			Why:         "all nodes would be one subscribed system, with the builder machine's certificates",
			Regenerated: "a new registration; certificates for the cloud's own update servers are in other folders and stay", Source: "virt-sysprep: rh-subscription-manager, rhn-systemid",
		},
		{
			ID: "managed-node", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/etc/puppetlabs/puppet/ssl/*", "/var/lib/puppet/ssl/*", "/opt/puppetlabs/puppet/cache/state/*", "/etc/chef/client.pem",
				"/etc/salt/pki/minion/minion.pem", "/etc/salt/pki/minion/minion.pub", "/etc/salt/minion_id",
			}, Owner: "Puppet, Chef, Salt",
			Why:         "every node would be the builder machine for its configuration server, with the same key and name",
			Regenerated: "the agent, which requests a new certificate", Source: "virt-sysprep: puppet-data-log; Salt, preseed and minion_id",
		},
		{
			ID: "agent-ids", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/etc/datadog-agent/auth_token", "/etc/datadog-agent/ipc_cert.pem", "/opt/datadog-agent/run/*",
				"/opt/aws/amazon-cloudwatch-agent/logs/*.log*", "/opt/aws/amazon-cloudwatch-agent/logs/state/*",
				"/var/lib/*beat/meta.json", "/var/lib/*beat/registry",
				"/etc/amazon/efs/privateKey.pem",
				"/var/fluent-bit/state/*", "/var/lib/alloy/data/*", "/var/lib/promtail/positions.yaml", "/var/db/newrelic-infra/data/*",
				"/opt/splunkforwarder/etc/instance.cfg", "/opt/splunkforwarder/var/lib/splunk/fishbucket/*", "/var/lib/netdata/registry/netdata.public.unique.id",
				"/var/lib/netdata/cloud.d/*", "/var/lib/cmk-agent/registered_connections.json",
			}, Owner: "Datadog, CloudWatch, Elastic's, Grafana's, New Relic's, Splunk's and other agents, Fluent Bit on EKS, amazon-efs-utils",
			Why:         "all nodes would share one ID, one key and one position in each log",
			Regenerated: "the agent, when it starts", Source: "the agents' own documentation",
		},
		{
			ID: "scanner-ids", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Paths: []string{
				"/var/ossec/etc/client.keys", "/etc/qualys/hostid", "/etc/tenable_tag", "/opt/nessus_agent/var/nessus/uuid", "/var/osquery/osquery.db/*",
			}, Owner: "Wazuh, Qualys, Tenable, osquery",
			Why:         "the security console shows all nodes as one, and each report overwrites the last",
			Regenerated: "the agent, when it starts; Wazuh enrols again", Source: "the agents' documentation on golden images",
		},
		{
			ID: "mesh-identity", Phase: Identity, Groups: append(g, "secrets", "network"), Verb: plan.Remove,
			Paths: []string{
				"/var/lib/tailscale/tailscaled.state", "/var/lib/zerotier-one/identity.*", "/var/lib/teleport/host_uuid", "/var/lib/teleport/proc/*",
				"/var/lib/spire/agent/*", "/opt/spire/data/agent/*",
				"/opt/consul/node-id", "/var/lib/consul/node-id", "/opt/consul/serf/*", "/var/lib/consul/serf/*",
				"/opt/nomad/client/client-id", "/opt/nomad/client/secret-id", "/opt/nomad/client/state.db", "/var/lib/nomad/client/client-id", "/var/lib/nomad/client/secret-id", "/var/lib/nomad/client/state.db",
			}, Owner: "Tailscale, ZeroTier, Teleport, SPIRE, Consul, Nomad",
			Why:         "each node that starts would take over the builder machine's name in the private network from the node before",
			Regenerated: "joining again with a new token", Source: "the programs' own documentation",
		},
	}
}
