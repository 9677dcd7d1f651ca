//go:build linux

package scrub

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
