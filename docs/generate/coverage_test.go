//go:build linux

package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// sysprepOperations are the operations of virt-sysprep 1.57, from
// virt-sysprep(1) and `virt-sysprep --list-operations`.
const sysprepOperations = `abrt-data backup-files bash-history blkid-tab ca-certificates crash-data cron-spool customize dhcp-client-state
dhcp-server-state dovecot-data firewall-rules flag-reconfiguration fs-uuids ipa-client kerberos-data kerberos-hostkeytab logfiles lvm-system-devices
lvm-uuids machine-id mail-spool net-hostname net-hwaddr net-nmconn pacct-log package-manager-cache pam-data passwd-backups puppet-data-log
rh-subscription-manager rhn-systemid rpm-db samba-db-log script smolt-uuid ssh-hostkeys ssh-userdir sssd-db-log tmp-files udev-persistent-net
user-account utmp yum-uuid zsh-history`

// imageBuilderFiles are the files that the clean-up script of EC2 Image Builder
// for Linux deletes, from "Security best practices for Image Builder".
const imageBuilderFiles = `/etc/sudoers.d/90-cloud-init-users /etc/locale.conf /var/log/cloud-init.log /var/log/cloud-init-output.log /var/lib/cloud/*
/etc/.updated /etc/aliases.db /etc/hostname /var/lib/misc/postfix.aliasesdb-stamp /var/lib/postfix/master.lock /var/spool/postfix/pid/master.pid
/var/.updated /var/cache/yum/x86_64/2/.gpgkeyschecked.yum /etc/ssh/ssh_host_* /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys
/var/log/audit/audit.log /var/log/boot.log /var/log/dmesg /var/log/cron {{workingDirectory}}/TOE_* /var/log/amazon/ssm /var/log/sa/sa*
/var/lib/dhclient/dhclient*.lease /var/tmp /var/lib/rsyslog/imjournal.state /var/log/journal /etc/machine-id`

// sysprepTasks are the tasks of the role sysprep of kubernetes-sigs/image-builder,
// without tasks that only look or set a variable.
const sysprepTasks = `Remove containerd http proxy conf file if needed
Remove pip conf file if needed
Truncate machine id
Truncate hostname file
Set hostname
Reset hosts file
Truncate audit logs
Remove cloud-init lib dir and logs
Reset cloud-init
Remove cloud-init.disabled
Find temp files
Reset temp space
Find netplan files
Delete netplan files
Create netplan for KubeVirt
Find SSH host keys
Remove SSH host keys
Remove SSH authorized users
Remove SSH authorized users for Flatcar
Find remaining log files in /var/log
Truncate all remaining log files in /var/log
Find logrotated logs in /var/log
Delete all logrotated logs
Remove swapfile
Truncate shell history
Rotate journalctl to archive logs
Remove archived journalctl logs
Ensure ignition runs on next boot
Remove any default Ignition files used by Packer
Start fstrim
Start ssh
Disable apt-daily timers
Stop apt-daily services
Disable unattended upgrades if installed
Pin all installed packages with apt-mark
Unpin grub packages with apt-mark for MaaS
Remove extra repos
Find disabled repo files
Enable repos
Remove templated apt.conf.d/90proxy used for http(s)_proxy support
Stop auditing
Remove apt package caches
Remove apt package lists
Reset network interface IDs
Configure grub for non graphical consoles and add user extra kernel boot params
Removing subiquity disable cloud-init networking configs
Removing 99-installer.cfg which sets the cloud-init datasource to None
Removing subiquity curtin preserve sources config
Removing cloud-init ds identify config
Removing 90-installer-network.cfg installer network configuration
Exclude the packages from upgrades
Exclude packages from upgrade
Remove RHEL subscription
Remove yum package caches
Remove yum package lists
Reset network interface IDs (legacy ifcfg)
Migrate interface configuration files to NetworkManager keyfiles
Reset network interface IDs (NetworkManager keyfiles)
Remove the kickstart log
Invalidate the machine-id file for systemd to reevaluate presets
Stop and mask update-engine to freeze the image version
Stop and mask the locksmith reboot manager since it depends on update-engine
Mask docker
Remove autologin from grub
Set cgroup v1 to match the cgroupfs driver in containerd and kubelet
Set oem_id in grub
Set ignition config URL in grub for metal platform
Lock root account
Update the repos package to import the recent gpg keys
Remove tdnf package caches
Ensure nftables config ends with a newline
Disable swap service and ensure it is masked`

func TestCoverageHasEveryStepOfOtherCleaners(t *testing.T) {
	for from, want := range map[string][]string{
		"virt-sysprep":      strings.Fields(sysprepOperations),
		"EC2 Image Builder": strings.Fields(imageBuilderFiles),
		"image-builder":     strings.Split(sysprepTasks, "\n"),
	} {
		t.Run(from, func(t *testing.T) {
			slices.Sort(want)
			assert.Equal(t, slices.Compact(want), itemsOf(t, from))
		})
	}
	assert.GreaterOrEqual(t, len(itemsOf(t, "agents")), 30)
}

// itemsOf returns the steps or programs of a source, each once.
func itemsOf(t *testing.T, from string) []string {
	t.Helper()
	list, err := coverage(from)
	require.NoError(t, err)
	items := map[string]bool{}
	for _, c := range list {
		items[c.Item] = true
	}
	return slices.Sorted(maps.Keys(items))
}

// Each row of the page is true: the files of all rows of a source are in one
// image, which is scrubbed and audited with all rules.
func TestCoverage(t *testing.T) {
	for _, from := range cleaners(t) {
		t.Run(from, func(t *testing.T) {
			list, err := coverage(from)
			require.NoError(t, err)
			s := scrubbed(t, list)
			for _, c := range list {
				t.Run(c.Item+"/"+string(c.Outcome), func(t *testing.T) { s.prove(t, c) })
			}
		})
	}
}

// cleaners are the cleaners, programs and clusters that have rows.
func cleaners(t *testing.T) []string {
	t.Helper()
	var all []covered
	require.NoError(t, json.Unmarshal(coverageFile, &all))
	var names []string
	for _, c := range all {
		names = append(names, c.From)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// cleaned is an image after a scrub.
type cleaned struct {
	root string
	// by has the rules that acted on a path, found those that reported it.
	by, found map[string][]string
}

// scrubbed builds an image of an account and the samples, scrubs and audits it.
func scrubbed(t *testing.T, list []covered) cleaned {
	t.Helper()
	s := cleaned{root: t.TempDir(), by: map[string][]string{}, found: map[string][]string{}}
	hosttest.Lay(t, s.root, map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n",
		"/usr/lib/systemd/system/sshd-keygen@.service":     "[Unit]\n",
		"/etc/systemd/system/multi-user.target.wants/none": "",
	})
	for _, c := range list {
		hosttest.Lay(t, s.root, c.Sample)
	}
	h := hosttest.Mounted(t, s.root)
	var more []scrub.Rule
	for _, r := range rules() {
		if r.Distros != nil {
			more = append(more, r.Rule)
		}
	}
	items, err := scrub.Spec{}.Items(more)
	require.NoError(t, err)
	outcomes, err := plan.Apply(t.Context(), h, items, nil)
	require.NoError(t, err)
	for _, o := range outcomes {
		for _, a := range o.Actions {
			s.by[a.Target] = append(s.by[a.Target], o.Item)
		}
	}
	items, err = scrub.Spec{}.AuditItems(more)
	require.NoError(t, err)
	for _, planned := range plan.Make(t.Context(), h, items) {
		assert.Empty(t, planned.Error, planned.Item)
		assert.Empty(t, planned.Actions, planned.Item)
		for _, f := range planned.Findings {
			s.found[f.Target] = append(s.found[f.Target], planned.Item)
		}
	}
	return s
}

// prove checks that the files of a row are what the row says.
func (s cleaned) prove(t *testing.T, c covered) {
	require.Contains(t, outcomes, c.Outcome)
	assert.Equal(t, c.Outcome == nothing, len(c.Sample) == 0, "a row has files unless there is nothing to do")
	assert.Equal(t, c.Outcome == nothing || c.Outcome == keeps, c.Rule == "", "a row names its rule")
	if c.Rule == "" {
		assert.NotEmpty(t, c.Why, "a row without a rule has a reason")
	}
	for name, before := range c.Sample {
		after, err := os.ReadFile(filepath.Join(s.root, name))
		acted, found := atOrAbove(s.by, name), atOrAbove(s.found, name)
		switch c.Outcome {
		case removed:
			assert.ErrorIs(t, err, os.ErrNotExist, name)
			assert.Contains(t, acted, c.Rule, name)
			continue
		case emptied:
			assert.Empty(t, string(after), name)
			assert.Contains(t, acted, c.Rule, name)
		case changed:
			assert.NotEmpty(t, after, name)
			assert.NotEqual(t, before, string(after), name)
			assert.Contains(t, acted, c.Rule, name)
		case reported:
			assert.Equal(t, before, string(after), name)
			assert.Contains(t, found, c.Rule, name)
		case keeps:
			assert.Equal(t, before, string(after), name)
			assert.Empty(t, acted, name)
			assert.Empty(t, found, name)
		}
		assert.NoError(t, err, name)
	}
}

func atOrAbove(rules map[string][]string, name string) []string {
	var all []string
	for ; name != "/"; name = filepath.Dir(name) {
		all = append(all, rules[name]...)
	}
	return all
}
