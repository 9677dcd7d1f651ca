package scrub

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// agentFolderRules has the rule for folders of interrupted sessions of Packer.
func agentFolderRules() []Rule {
	return []Rule{
		{
			ID: "agent-folders", Phase: Caches, Groups: []string{"caches"}, Verb: plan.Remove,
			Paths: []string{"/**/" + agentFolder, path.Dir(KeptAgent)}, Owner: "the Packer plugin",
			Why:         "a session that was cut leaves a copy of eksnode in remote_folder, and a provision one for the next provisioner; a folder with other files is a finding",
			Regenerated: "nothing", Source: "the Packer plugin, which makes the folder",
			Find: agentFolders,
		},
	}
}

// KeptAgent is the agent that a provision leaves for the next provisioner of a build. Only
// root can enter its folder.
const KeptAgent = "/run/eksnode-agent/eksnode"

// agentFolder matches the name of the agent's folder.
const agentFolder = "eksnode-" + hex4 + hex4 + hex4 + hex4

const hex4 = "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"

// noAgents are folders without agents: of the kernel, and of containers' files.
var noAgents = []string{"/proc", "/sys", "/dev", "/run", "/var/lib/containerd", "/var/lib/docker", "/var/lib/containers"}

// agentFolders plans the removal of agents wherever they are.
func agentFolders(ctx context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	var errs []error
	_, err := h.Files.Lstat(path.Dir(KeptAgent))
	if err == nil {
		answer.Actions = append(answer.Actions, removeAction(h, path.Dir(KeptAgent), "the agent that a provision kept"))
	}
	errs = append(errs, ignoreMissing(err))
	_, err = h.Files.Walk(ctx, "/", "/", func(e host.Entry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, err)
			return nil
		case !e.IsDir():
			return nil
		case slices.Contains(noAgents, e.Path):
			return fs.SkipDir
		case !kept([]string{agentFolder}, path.Base(e.Path)):
			return nil
		}
		own, err := onlyAgent(h, e.Path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case own:
			answer.Actions = append(answer.Actions, removeAction(h, e.Path, "the agent of a session that was cut"))
		default:
			answer.Find(e.Path, "has the name of the agent's folder, and other files: look at them and remove the folder")
		}
		return fs.SkipDir
	})
	return answer, errors.Join(append(errs, err)...)
}

// onlyAgent reports whether a folder has nothing but the agent.
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
		if !e.IsDir() || !kept([]string{agentFolder}, e.Name()) {
			continue
		}
		own, failed := onlyAgent(h, name)
		if own {
			_, failed = h.Files.RemoveTree(name)
		}
		err = errors.Join(err, ignoreMissing(failed))
	}
	_, failed := h.Files.RemoveTree(path.Dir(KeptAgent))
	return errors.Join(err, ignoreMissing(failed))
}

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
