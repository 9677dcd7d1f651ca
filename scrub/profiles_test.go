//go:build linux

package scrub

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What no program can repair is a finding.
func TestMixedProfilesAreFindings(t *testing.T) {
	files := map[string]string{}
	for _, c := range found()["network-addresses"] {
		for name, text := range c.Files {
			if strings.HasPrefix(name, "etc/netplan/") || strings.HasPrefix(name, "etc/network/") {
				files[name] = text
			}
		}
	}
	h, _ := tree(t, files)
	answer, err := look(t, "network-addresses", h)
	require.NoError(t, err)
	said := map[string]string{}
	for _, f := range answer.Findings {
		said[f.Target] = f.Reason
	}
	damaged := said["/etc/netplan/04-damaged.yaml"]
	delete(said, "/etc/netplan/04-damaged.yaml")
	assert.Contains(t, damaged, "is not readable as a netplan file (yaml: ")
	assert.Contains(t, damaged, "): repair or remove the file")
	assert.Equal(t, map[string]string{
		"/etc/netplan/03-mixed.yaml":     "has a fixed network address, which only one machine can have: remove the card's address from the file; other parts of the file may be for every machine",
		"/etc/network/interfaces":        "has a fixed network address, which only one machine can have: use dhcp for this interface",
		"/etc/network/interfaces.d/eth0": "is for one network card, by its hardware address: remove the line hwaddress",
	}, said)
}

func TestKubeadmsHostsReportTheControlPlanesSettings(t *testing.T) {
	files := map[string]string{
		"etc/passwd": passwd, "etc/kubernetes/audit-policy.yaml": "kind: Policy\n", "etc/kubernetes/kubelet/config.json.d/50-own.conf": "{}",
		"etc/kubernetes/manifests/": "", "etc/kubernetes/admin.conf": "x", "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
	}
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "kubeadm-unknown"), "an EKS node has no kubeadm")
	assert.Equal(t, []string{"/var/lib/kubelet/config.yaml: no rule covers this file: remove it by hand if it is state of the old cluster"}, audit(t, h, "kubelet-unknown"))

	files["usr/bin/kubeadm"] = "program"
	h, root := tree(t, files)
	assert.Equal(t, []string{"/etc/kubernetes/audit-policy.yaml: no rule covers this file of a machine with kubeadm: remove it by hand if it belongs to the old cluster"}, audit(t, h, "kubeadm-unknown"))
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"kubelet-unknown"}})
	assert.Equal(t, []string{"- /var/lib/kubelet/config.yaml"}, diff(before, snapshot(t, root)))
}

// Files of interfaces neither name nor set the builder machine's MAC address, and
// no file is left for an interface that a node's VPC CNI attaches.
func TestNoInterfaceKeepsTheBuilderMachinesAddress(t *testing.T) {
	const scripts, suse = "etc/sysconfig/network-scripts/", "etc/sysconfig/network/"
	for name, c := range map[string]struct{ files, want map[string]string }{
		"cloud-init, Red Hat's family": {
			map[string]string{scripts + "ifcfg-eth0": "# Created by cloud-init automatically, do not edit.\n#\nBOOTPROTO=dhcp\nDEVICE=eth0\nHWADDR=06:11:22:33:44:55\nONBOOT=yes\n"},
			map[string]string{scripts + "ifcfg-eth0": "# Created by cloud-init automatically, do not edit.\n#\nBOOTPROTO=dhcp\nDEVICE=eth0\nONBOOT=yes\n"},
		},
		"cloud-init, SUSE": {
			map[string]string{
				suse + "ifcfg-eth0": "BOOTPROTO=dhcp4\nLLADDR=06:11:22:33:44:55\nSTARTMODE=auto\n",
				"etc/udev/rules.d/85-persistent-net-cloud-init.rules": `SUBSYSTEM=="net", ACTION=="add", DRIVERS=="?*", ATTR{address}=="06:11:22:33:44:55", NAME="eth0"` + "\n",
			},
			map[string]string{suse + "ifcfg-eth0": "BOOTPROTO=dhcp4\nSTARTMODE=auto\n", "etc/udev/rules.d/85-persistent-net-cloud-init.rules": ""},
		},
		"cloud-netconfig's file of a second interface": {
			map[string]string{suse + "ifcfg-eth0": "BOOTPROTO=dhcp\n", suse + "ifcfg-eth1": "STARTMODE=\"hotplug\"\nBOOTPROTO=\"dhcp\"\n", suse + "ifroute-eth1": "default 10.0.0.1\n", suse + "ifcfg-eth12": "BOOTPROTO=dhcp\n"},
			map[string]string{suse + "ifcfg-eth0": "BOOTPROTO=dhcp\n", suse + "ifcfg-eth1": "", suse + "ifroute-eth1": "", suse + "ifcfg-eth12": ""},
		},
		"other spellings": {
			map[string]string{scripts + "ifcfg-ens5": "  hwaddr = '06:11:22:33:44:55'\r\nMACADDR=06:11:22:33:44:55\nDEVICE=ens5", suse + "ifcfg-br0": "export LLADDR=06:11:22:33:44:55\n#LLADDR=06:11:22:33:44:55\nBRIDGE=yes\n"},
			map[string]string{scripts + "ifcfg-ens5": "DEVICE=ens5", suse + "ifcfg-br0": "BRIDGE=yes\n"},
		},
		"no address": {
			map[string]string{scripts + "ifcfg-lo": "DEVICE=lo\n", suse + "ifcfg-lo": "STARTMODE=nfsroot\n", suse + "config": "LLADDR=06:11:22:33:44:55\n"},
			map[string]string{scripts + "ifcfg-lo": "DEVICE=lo\n", suse + "ifcfg-lo": "STARTMODE=nfsroot\n", suse + "config": "LLADDR=06:11:22:33:44:55\n"},
		},
		"Amazon Linux 2's file in the folder's place": {
			map[string]string{"etc/sysconfig/network": "NETWORKING=yes\n"}, map[string]string{"etc/sysconfig/network": "NETWORKING=yes\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd}
			maps.Copy(files, c.files)
			h, root := tree(t, files)
			apply(t, h, Spec{Only: []string{"network"}})
			for path, want := range c.want {
				content, err := os.ReadFile(filepath.Join(root, path))
				if want == "" {
					require.ErrorIs(t, err, os.ErrNotExist, path)
					continue
				}
				require.NoError(t, err)
				assert.Equal(t, want, string(content), path)
			}
		})
	}
}

// Wicked's own name for the address is found where no rule removes it.
func TestTheAddressOfWickedIsFound(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, "etc/sysconfig/network/config": "LLADDR='06:11:22:33:44:55'\n"})
	assert.Equal(t, []string{"/etc/sysconfig/network/config: line 1 contains a network interface's address"}, audit(t, h, "host-ids-left"))
}
