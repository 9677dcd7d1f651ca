package scrub

import "github.com/eksnode/packer-plugin-eksnode/plan"

// membershipRules are the rules for a machine's identity in other systems:
// domains, subscriptions, configuration management and private networks. Where
// possible, each program creates a new identity if it finds none. Steps that
// need a person, such as joining a domain, need the person with a copied
// identity too.
func membershipRules() []Rule {
	g := []string{"identity"}
	return []Rule{
		(Rule{
			ID: "domain-membership", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "every node would act as the builder machine's account in the domain, with its keys and its cache of people",
			Regenerated: "joining the domain", Source: "virt-sysprep: kerberos-hostkeytab, sssd-db-log, samba-db-log, ipa-client",
		}).of(
			program{"realmd, adcli", []string{"/etc/*.keytab", "/etc/krb5.keytab.*", "/etc/security/keytabs/*.keytab", "/var/kerberos/krb5/user/*/client.keytab"}},
			program{"sssd", []string{
				"/var/lib/sss/db/*", "/var/lib/sss/mc/*", "/var/lib/sss/secrets/*", "/var/lib/sss/keytabs/*", "/var/lib/sss/gpo_cache/*", "/var/lib/sss/deskprofile/*", "/var/log/sssd/*",
				"/var/lib/sss/pubconf/kdcinfo.*", "/var/lib/sss/pubconf/kpasswdinfo.*", "/var/lib/sss/pubconf/known_hosts", "/var/lib/sss/pubconf/krb5.include.d/*",
			}},
			program{"Samba", []string{"/var/lib/samba/*.tdb", "/var/lib/samba/private/*", "/var/lib/samba/lock/*.tdb", "/var/cache/samba/*", "/etc/samba/secrets.tdb"}},
			program{"ipa-client", []string{"/var/lib/ipa-client/sysrestore/*", "/var/lib/ipa-client/pki/*", "/etc/pki/ca-trust/source/ipa.p11-kit", "/etc/ipa/default.conf", "/etc/ipa/ca.crt", "/etc/ipa/nssdb/*"}},
			program{"certmonger", []string{"/var/lib/certmonger/requests/*", "/var/lib/certmonger/local/*"}},
			program{"gssproxy", []string{"/var/lib/gssproxy/clients/*", "/var/lib/gssproxy/rcache/*"}},
			program{"Kerberos accounts", []string{"~/.k5login", "~/.k5users"}},
		),
		(Rule{
			ID: "subscription", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "all nodes would be one subscribed system, with the builder machine's certificates",
			Regenerated: "a new registration; certificates for the cloud's own update servers are in other folders and stay",
			Source:      "virt-sysprep: rh-subscription-manager, rhn-systemid; insights-client --unregister; pro detach; Landscape: cloned computers",
		}).of(
			program{"subscription-manager", []string{"/etc/pki/consumer/*", "/etc/pki/entitlement/*", "/etc/rhsm/facts/katello.facts", "/etc/yum.repos.d/redhat.repo", "/var/lib/rhsm/facts/*", "/var/lib/rhsm/cache/*", "/var/lib/rhsm/packages/*", "/etc/sysconfig/rhn/systemid", "/etc/sysconfig/rhn/osad-auth.conf"}},
			program{"insights-client", []string{
				"/etc/insights-client/machine-id", "/etc/insights-client/.registered", "/etc/insights-client/.unregistered", "/etc/insights-client/.lastupload",
				"/etc/insights-client/.cache*", "/etc/insights-client/.last-upload.results", "/etc/redhat-access-insights/machine-id", "/etc/redhat-access-insights/.registered", "/var/lib/insights/*.json", "/var/cache/insights/*",
			}},
			program{"Ubuntu Pro", []string{
				"/var/lib/ubuntu-advantage/private/*", "/var/lib/ubuntu-advantage/machine-access-*.json", "/var/lib/ubuntu-advantage/machine-token.json", "/var/lib/ubuntu-advantage/jobs-status.json",
				"/var/lib/ubuntu-advantage/machine-id", "/var/lib/ubuntu-advantage/status.json", "/etc/machine-token", "/etc/apt/auth.conf.d/90ubuntu-advantage",
				"/var/snap/canonical-livepatch/*/machine-token",
			}},
			program{"Landscape", []string{"/var/lib/landscape/client/*.bpickle*", "/var/lib/landscape/client/messages/*", "/var/lib/landscape/client/*.database", "/var/lib/landscape/client/hash-id-databases/*", "/var/lib/landscape/client/package/*", "/var/lib/landscape/landscape-sysinfo.cache"}},
			program{"smolt", []string{"/etc/smolt/uuid", "/etc/smolt/hw-uuid", "/etc/sysconfig/hw-uuid"}},
		),
		(Rule{
			ID: "managed-node", Phase: Identity, Groups: append(g, "secrets"), Verb: plan.Remove,
			Why:         "every node would be the builder machine for its configuration server, with the same key, name and cached data",
			Regenerated: "the agent, which requests a new certificate", Source: "virt-sysprep: puppet-data-log; Salt, preseed and minion_id; Chef, client.pem and file_backup_path",
		}).of(
			program{"Puppet", []string{
				"/etc/puppetlabs/puppet/ssl/*", "/etc/puppet/ssl/*", "/var/lib/puppet/ssl/*", "/var/lib/puppet/state/*", "/var/lib/puppet/client_data/*", "/var/lib/puppet/client_yaml/*", "/var/lib/puppet/clientbucket/*", "/var/lib/puppet/reports/*", "/var/lib/puppet/yaml/*", "/var/lib/puppet/facts/*",
				"/opt/puppetlabs/puppet/cache/state/*", "/opt/puppetlabs/puppet/cache/client_data/*",
				"/opt/puppetlabs/puppet/cache/client_yaml/*", "/opt/puppetlabs/puppet/cache/clientbucket/*", "/opt/puppetlabs/puppet/cache/reports/*",
				"/var/cache/puppet/state/*", "/var/cache/puppet/client_data/*", "/var/cache/puppet/clientbucket/*",
			}},
			program{"Chef, Cinc", []string{
				"/etc/chef/client.pem", "/var/chef/backup/*", "/var/chef/cache/*", "/var/chef/reports/*", "/var/lib/chef/backup/*", "/var/cache/chef/*",
				"/etc/cinc/client.pem", "/var/cinc/backup/*", "/var/cinc/cache/*",
			}},
			program{"Salt", []string{
				"/etc/salt/pki/minion/minion.pem", "/etc/salt/pki/minion/minion.pub", "/etc/salt/minion_id", "/var/cache/salt/minion/*", "/var/lib/salt/pki/minion/minion.pem", "/var/lib/salt/pki/minion/minion.pub",
				"/etc/venv-salt-minion/pki/minion/minion.pem", "/etc/venv-salt-minion/pki/minion/minion.pub", "/etc/venv-salt-minion/minion_id", "/var/cache/venv-salt-minion/minion/*",
			}},
			program{"CFEngine, Rudder", []string{"/var/cfengine/ppkeys/localhost.*", "/var/rudder/cfengine-community/ppkeys/localhost.*", "/opt/rudder/etc/uuid.hive"}},
			program{"AWS CodeDeploy, Amazon ECS", []string{"/opt/codedeploy-agent/deployment-root/*", "/etc/codedeploy-agent/conf/codedeploy.onpremises.yml", "/var/lib/ecs/data/*"}},
		),
		(Rule{
			ID: "mesh-identity", Phase: Identity, Groups: append(g, "secrets", "network"), Verb: plan.Remove,
			Why:         "each node that starts would take over the builder machine's name in the private network from the node before",
			Regenerated: "joining again with a new token", Source: "the programs' own documentation",
		}).of(
			program{"Tailscale", []string{"/var/lib/tailscale/*", "/var/cache/tailscale/*"}},
			program{"ZeroTier", []string{"/var/lib/zerotier-one/identity.*", "/var/lib/zerotier-one/authtoken.secret"}},
			program{"NetBird", []string{"/var/lib/netbird/*", "/etc/netbird/config.json"}},
			program{"cloudflared", []string{"/etc/cloudflared/*.json", "/etc/cloudflared/cert.pem", "~/.cloudflared"}},
			program{"Okta Advanced Server Access", []string{"/var/lib/sftd/*"}},
			program{"Teleport", []string{"/var/lib/teleport/host_uuid", "/var/lib/teleport/proc/*", "/var/lib/teleport/log/*"}},
			program{"SPIRE", []string{"/var/lib/spire/agent/*", "/opt/spire/data/agent/*"}},
			program{"Consul", []string{"/opt/consul/node-id", "/var/lib/consul/node-id", "/opt/consul/serf/*", "/var/lib/consul/serf/*", "/opt/consul/checks/*", "/var/lib/consul/checks/*", "/opt/consul/services/*", "/var/lib/consul/services/*", "/opt/consul/raft/*", "/var/lib/consul/raft/*"}},
			program{"Nomad", []string{
				"/opt/nomad/client/client-id", "/opt/nomad/client/secret-id", "/opt/nomad/client/state.db", "/opt/nomad/data/client/client-id", "/opt/nomad/data/client/secret-id", "/opt/nomad/data/client/state.db",
				"/var/lib/nomad/client/client-id", "/var/lib/nomad/client/secret-id", "/var/lib/nomad/client/state.db", "/opt/nomad/alloc/*", "/opt/nomad/data/alloc/*", "/var/lib/nomad/alloc/*",
			}},
		),
	}
}
