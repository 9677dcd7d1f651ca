//go:build linux

package scrub

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Files that an image has on purpose lie next to leftover state. No rule removes
// them.
func TestFilesThatTheImageNeedsStay(t *testing.T) {
	kept := map[string]string{
		"var/spool/cron/atjobs/.SEQ":                                "0", // at(1) refuses jobs without
		"var/spool/at/.SEQ":                                         "0",
		"var/spool/postfix/etc/resolv.conf":                         "chroot",
		"var/spool/postfix/pid/":                                    "",
		"root/.docker/cli-plugins/docker-compose":                   "program",
		"root/.ansible/collections/ansible_collections/x/MANIFEST":  "collection",
		"root/.config/fish/config.fish":                             "config",
		"root/.bashrc":                                              "config",
		"etc/pki/rhui/product/content.crt":                          "the cloud's update servers",
		"etc/pki/rpm-gpg/RPM-GPG-KEY-amazon-linux-2023":             "key",
		"etc/salt/pki/minion/minion_master.pub":                     "trust",
		"etc/salt/minion.d/master.conf":                             "config",
		"etc/datadog-agent/datadog.yaml":                            "config",
		"etc/krb5.conf":                                             "config",
		"etc/sssd/sssd.conf":                                        "config",
		"etc/nvme/discovery.conf":                                   "config",
		"etc/multipath.conf":                                        "config",
		"etc/chrony/chrony.conf":                                    "config",
		"etc/ssh/sshd_config.d/60-cloudimg-settings.conf":           "PasswordAuthentication no",
		"etc/cloud/cloud.cfg.d/05_logging.cfg":                      "config",
		"etc/cni/conf.json":                                         "config",
		"etc/eks/nodeadm.d/20-runsc.yaml":                           "kind: NodeConfig\nspec: {containerd: {config: x}}\n",
		"etc/kubernetes/kubelet/config.json.d/50-own.conf":          "{}",
		"etc/machine-id":                                            "",
		"etc/systemd/system/kubelet.service.d/50-own.conf":          "[Service]",
		"opt/aws/amazon-cloudwatch-agent/etc/config.json":           "config",
		"opt/aws/amazon-cloudwatch-agent/bin/start":                 "program",
		"opt/puppetlabs/puppet/cache/lib/facter/x.rb":               "plugin",
		"var/lib/amazon/ssm/packages/AmazonCloudWatchAgent/x":       "package",
		"var/lib/hibinit-agent/":                                    "",
		"var/lib/chrony/":                                           "",
		"var/lib/wtmpdb/wtmp.db":                                    "-> ../../log/wtmp.db",
		"var/lib/cloud/scripts/per-boot/tune.sh":                    "script",
		"var/lib/snapd/state.json":                                  "{}",
		"var/lib/rhsm/productid.js":                                 "{}",
		"var/lib/systemd/deb-systemd-helper-enabled/x.service.link": "state",
		"var/lib/dpkg/status":                                       "packages",
	}
	files := common()
	maps.Copy(files, kept)
	h, root := surrounded(t, files)
	before := noted(t, root)
	apply(t, h, Spec{})
	assert.Empty(t, diff(before, noted(t, root)))
}
