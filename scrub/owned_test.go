//go:build linux

package scrub

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A CNI configuration that a package owns stays; that of a cluster goes, also
// where packages cannot be read.
func TestCNIConfigurationsOfPackagesStay(t *testing.T) {
	const podman, aws = "etc/cni/net.d/87-podman-bridge.conflist", "etc/cni/net.d/10-aws.conflist"
	for name, c := range map[string]struct {
		more map[string]string
		want []string
	}{
		"dpkg": {map[string]string{"var/lib/dpkg/status": "Package: podman\nStatus: install ok installed\n", "var/lib/dpkg/info/podman.list": "/" + podman + "\n"}, []string{"- /" + aws}},
		"pacman": {map[string]string{"var/lib/pacman/local/ALPM_DB_VERSION": "9\n", "var/lib/pacman/local/podman-1-1/desc": "%NAME%\npodman\n",
			"var/lib/pacman/local/podman-1-1/files": "%FILES%\n" + podman + "\n"}, []string{"- /" + aws}},
		"no package": {nil, []string{"- /" + aws, "- /" + podman}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd, podman: "{}", aws: "{}"}
			maps.Copy(files, c.more)
			h, root := tree(t, files)
			before := snapshot(t, root)
			apply(t, h, Spec{Only: []string{"cni-config"}})
			assert.Equal(t, c.want, diff(before, snapshot(t, root)))
			assert.Empty(t, audit(t, h, "cni-config"))
		})
	}
	h, root := tree(t, map[string]string{"etc/passwd": passwd, aws: "{}", "var/lib/dpkg/status": "Package: podman\nStatus: install ok installed\n"})
	apply(t, h, Spec{Only: []string{"cni-config"}})
	assert.NotContains(t, snapshot(t, root), "/"+aws)
}

const cloudInitUnit = "[Unit]\nDescription=x\n[Install]\nWantedBy=cloud-init.target\n"

// Host keys stay, with a finding, where cloud-init is off and nothing else makes
// keys.
func TestHostKeysStayWhereCloudInitIsOff(t *testing.T) {
	on := map[string]string{
		"etc/passwd": passwd, "etc/ssh/ssh_host_rsa_key": "KEY", "usr/lib/systemd/system/cloud-init.service": cloudInitUnit, "usr/lib/systemd/system/cloud-init.target": "[Unit]\n",
		"etc/systemd/system/cloud-init.target.wants/cloud-init.service": "-> /usr/lib/systemd/system/cloud-init.service",
		"etc/cloud/cloud.cfg": "cloud_init_modules:\n - seed_random\n - [ssh, always]\nssh_deletekeys: false\n", "etc/default/grub": "# cloud-init=disabled\nGRUB_CMDLINE_LINUX=\"quiet\"\n",
	}
	for name, c := range map[string]struct {
		more map[string]string
		why  string // empty if keys come back
	}{
		"on":                  {nil, ""},
		"a file":              {map[string]string{"etc/cloud/cloud-init.disabled": ""}, "/etc/cloud/cloud-init.disabled exists"},
		"GRUB's argument":     {map[string]string{"etc/default/grub": "GRUB_CMDLINE_LINUX=\"quiet cloud-init=disabled\"\n"}, "/etc/default/grub has cloud-init=disabled"},
		"GRUB's drop-in":      {map[string]string{"etc/default/grub.d/50-x.cfg": "GRUB_CMDLINE_LINUX_DEFAULT=cloud-init=disabled\n"}, "/etc/default/grub.d/50-x.cfg has cloud-init=disabled"},
		"a boot entry":        {map[string]string{"boot/loader/entries/x.conf": "options root=/dev/sda cloud-init=disabled\n"}, "/boot/loader/entries/x.conf has cloud-init=disabled"},
		"kernel-install's":    {map[string]string{"etc/kernel/cmdline": "cloud-init=disabled"}, "/etc/kernel/cmdline has cloud-init=disabled"},
		"a masked unit":       {map[string]string{"etc/systemd/system/cloud-init.service": "-> /dev/null"}, "cloud-init.service is masked"},
		"a masked target":     {map[string]string{"etc/systemd/system/cloud-init.target": "-> /dev/null"}, "cloud-init.target is masked"},
		"a masked generator":  {map[string]string{"etc/systemd/system-generators/cloud-init-generator": "-> /dev/null"}, "cloud-init-generator is masked"},
		"a disabled unit":     {map[string]string{"etc/systemd/system/cloud-init.target.wants/cloud-init.service": ""}, "cloud-init.service is disabled"},
		"a policy":            {map[string]string{"etc/cloud/ds-identify.cfg": "policy: disabled\n"}, "/etc/cloud/ds-identify.cfg has policy: disabled"},
		"no module":           {map[string]string{"etc/cloud/cloud.cfg.d/99-x.cfg": "cloud_init_modules: [growpart]\n"}, "its cloud_init_modules lack ssh"},
		"no types":            {map[string]string{"etc/cloud/cloud.cfg.d/99-x.cfg": "ssh_genkeytypes: []\n"}, "its ssh_genkeytypes is empty"},
		"off, but sshd's own": {map[string]string{"etc/cloud/cloud-init.disabled": "", "usr/lib/systemd/system/sshd-keygen.target": "[Unit]"}, ""},
		"off, but SUSE's":     {map[string]string{"etc/cloud/cloud-init.disabled": "", "usr/lib/systemd/system/sshd.service": "[Service]\nExecStartPre=/usr/sbin/sshd-gen-keys-start\n"}, ""},
		"off, but a drop-in":  {map[string]string{"etc/cloud/cloud-init.disabled": "", "etc/systemd/system/ssh.service.d/keys.conf": "[Service]\nExecStartPre=-/usr/bin/ssh-keygen -A\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(on)
			maps.Copy(files, c.more)
			maps.DeleteFunc(files, func(n, text string) bool { return text == "" && strings.HasSuffix(n, ".service") })
			h, root := tree(t, files)
			outcomes := apply(t, h, Spec{Only: []string{"ssh-host-keys"}})
			_, there := snapshot(t, root)["/etc/ssh/ssh_host_rsa_key"]
			if c.why == "" {
				assert.False(t, there)
				assert.Empty(t, outcomes[0].Findings)
				return
			}
			assert.True(t, there)
			require.Len(t, outcomes[0].Findings, 1)
			assert.Equal(t, fmt.Sprintf("no unit on this machine creates SSH host keys at boot (searched for %s; cloud-init creates none: %s), so the keys stay: let cloud-init run, or skip the rule to accept shared keys",
				strings.Join(hostKeyMakers, ", "), c.why), outcomes[0].Findings[0].Reason)
		})
	}
}

// Host keys in other places are findings: nothing creates them again.
func TestHostKeysInOtherPlacesAreReported(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, "etc/ssh/keys/host": "KEY", "etc/ssh/ssh_host_rsa_key": "KEY",
		"etc/ssh/sshd_config": "Include sshd_config.d/*.conf\nHostKey /etc/ssh/ssh_host_rsa_key\nHostKey /etc/ssh/missing\n", "etc/ssh/sshd_config.d/x.conf": "HostKey \"/etc/ssh/keys/host\"\n"})
	assert.Equal(t, []string{"/etc/ssh/keys/host: a host key that every node would share, named in /etc/ssh/sshd_config.d/x.conf:1: remove the key, and let a unit create it at boot before sshd starts"},
		audit(t, h, "ssh-host-keys-elsewhere"))
}
