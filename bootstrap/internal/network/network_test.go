//go:build linux

package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func machine(t *testing.T, files ...string) (*host.Host, string) {
	t.Helper()
	h := hosttest.Root(t, nil)
	for _, name := range files {
		hosttest.Lay(t, h.Root(), map[string]string{name: ""})
	}
	return h, h.Root()
}

const (
	udevRule = "/run/udev/rules.d/05-eksnode-secondary.rules"
	networkd = "/run/systemd/network/05-eksnode-secondary.network"
	nm       = "/run/NetworkManager/conf.d/05-eksnode-secondary.conf"
)

// The installed programs, not the distribution's name, select the files.
func TestEveryNetworkStackIgnoresSecondaryInterfaces(t *testing.T) {
	for name, c := range map[string]struct{ has, want []string }{
		"networkd (Arch, Flatcar)": {
			[]string{"/usr/bin/udevadm", "/usr/lib/systemd/systemd-networkd"}, []string{udevRule, networkd}},
		"networkd with ec2-net-utils (Amazon Linux 2023)": {
			[]string{"/usr/bin/udevadm", "/usr/lib/systemd/systemd-networkd",
				"/usr/lib/udev/rules.d/99-vpc-policy-routes.rules", "/usr/lib/systemd/system/policy-routes@.service"},
			[]string{udevRule, networkd, "/run/udev/rules.d/99-vpc-policy-routes.rules",
				"/run/systemd/system/policy-routes@.service"}},
		"netplan with networkd (Debian, Ubuntu)": {
			[]string{"/usr/bin/udevadm", "/lib/systemd/systemd-networkd", "/usr/sbin/netplan",
				"/usr/lib/systemd/system/cloud-init-hotplugd.socket"},
			[]string{udevRule, networkd, "/run/systemd/system/cloud-init-hotplugd.socket"}},
		"NetworkManager (Fedora, RHEL)": {
			[]string{"/usr/bin/udevadm", "/usr/sbin/NetworkManager", "/usr/lib/systemd/system/nm-cloud-setup.service",
				"/usr/lib/systemd/system/nm-cloud-setup.timer"},
			[]string{udevRule, nm, "/run/systemd/system/nm-cloud-setup.service",
				"/run/systemd/system/nm-cloud-setup.timer"}},
		"wicked (SUSE)": {
			[]string{"/usr/bin/udevadm", "/usr/sbin/wicked", "/usr/lib/udev/rules.d/61-cloud-netconfig-hotplug.rules",
				"/usr/lib/systemd/system/cloud-netconfig.timer"},
			[]string{udevRule, "/run/udev/rules.d/61-cloud-netconfig-hotplug.rules",
				"/run/systemd/system/cloud-netconfig.timer"}},
		"ifupdown": {[]string{"/bin/udevadm", "/sbin/ifup"}, []string{udevRule}},
		"nothing":  {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := machine(t, c.has...)
			o := Ownership{MAC: "02:AB:00:00:00:01"}
			_, err := plan.Apply(t.Context(), h, []plan.Item{o}, nil)
			require.NoError(t, err)
			var got []string
			require.NoError(t, filepath.WalkDir(filepath.Join(root, "run"),
				func(p string, d os.DirEntry, err error) error {
					if err == nil && !d.IsDir() {
						got = append(got, p[len(root):])
					}
					if os.IsNotExist(err) {
						return nil
					}
					return err
				}))
			assert.ElementsMatch(t, c.want, got)
			again, err := o.Plan(t.Context(), h)
			require.NoError(t, err)
			assert.Empty(t, again, "a second run has nothing to do")
		})
	}
}

func TestSecondaryInterfacesAreFound(t *testing.T) {
	h, root := machine(t, "/sys/class/net/.keep")
	add := func(name, driver, mac string) {
		folder := filepath.Join(root, "sys/devices", name)
		require.NoError(t, os.MkdirAll(filepath.Join(folder, "device"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "address"), []byte(mac+"\n"), 0o644))
		if driver != "" {
			require.NoError(t, os.Symlink("../../../bus/pci/drivers/"+driver, filepath.Join(folder, "device/driver")))
		}
		require.NoError(t, os.Symlink("../../devices/"+name, filepath.Join(root, "sys/class/net", name)))
	}
	look := func() []string {
		found, err := secondaries(h, "02:AB:00:00:00:01")
		require.NoError(t, err)
		return found
	}
	add("lo", "", "00:00:00:00:00:00")
	add("ens5", "ena", "02:ab:00:00:00:01")
	add("eni1234", "", "fe:00:00:00:00:09")
	add("usb0", "cdc_ether", "fe:00:00:00:00:08")
	assert.Empty(t, look())
	add("ens6", "ena", "02:ab:00:00:00:02")
	assert.Equal(t, []string{"ens6"}, look())
}

// NetworkManager keeps interfaces that it already manages, so a command releases each
// of them.
func TestExistingInterfacesAreReleased(t *testing.T) {
	var said []string
	for _, m := range table().Managers {
		for _, r := range m.Reload {
			for _, c := range r.of([]string{"ens6", "ens7"}) {
				said = append(said, strings.Join(c.Argv, " "))
			}
			for _, c := range r.of(nil) {
				assert.False(t, c.Present || c.Each, c.Argv)
			}
		}
	}
	assert.Equal(t, []string{
		"udevadm control --reload", "udevadm trigger --subsystem-match=net --action=change",
		"udevadm settle --timeout=30", "networkctl reload",
		"systemctl reload NetworkManager.service", "nmcli device set ens6 managed no",
		"nmcli device set ens7 managed no",
	}, said)
}

func TestDriverAndAddressIdentifyInterfaces(t *testing.T) {
	h, _ := machine(t, "/usr/bin/udevadm", "/usr/lib/systemd/systemd-networkd", "/usr/sbin/NetworkManager")
	_, err := plan.Apply(t.Context(), h, []plan.Item{Ownership{MAC: "02:AB:00:00:00:01"}}, nil)
	require.NoError(t, err)
	for name, want := range map[string]string{
		udevRule: `# Written by eksnode: interfaces other than the primary belong to the VPC CNI.
SUBSYSTEM=="net", ACTION!="remove", DRIVERS=="ena|ixgbevf|vif", ATTR{address}!="02:ab:00:00:00:01", ENV{EKSNODE_SECONDARY}="1", ENV{ID_NET_MANAGED_BY}="amazon-vpc-cni", ENV{NM_UNMANAGED}="1", RUN:="/bin/true"
`,
		networkd: `# Written by eksnode: interfaces other than the primary belong to the VPC CNI.
[Match]
Property=EKSNODE_SECONDARY=1

[Link]
Unmanaged=yes
`,
		nm: `# Written by eksnode: interfaces other than the primary belong to the VPC CNI.
[device-eksnode-secondary]
match-device=driver:ena,driver:ixgbevf,driver:vif,except:mac:02:AB:00:00:00:01
managed=0

[device-eksnode-pods]
match-device=driver:veth,except:interface-name:eth*,except:interface-name:host0
managed=0
`,
	} {
		got, err := h.Content(name)
		require.NoError(t, err)
		assert.Equal(t, want, string(got), name)
	}
}

// The address of another instance is replaced in all files.
func TestAddressOfAnotherInstanceIsReplaced(t *testing.T) {
	h, _ := machine(t, "/usr/bin/udevadm")
	for _, mac := range []string{"02:00:00:00:00:01", "02:00:00:00:00:02"} {
		_, err := plan.Apply(t.Context(), h, []plan.Item{Ownership{MAC: mac}}, nil)
		require.NoError(t, err)
	}
	got, err := h.Content(udevRule)
	require.NoError(t, err)
	assert.Contains(t, string(got), "02:00:00:00:00:02")
	assert.NotContains(t, string(got), "02:00:00:00:00:01")
}

func TestInvalidMACAddressIsRefused(t *testing.T) {
	h, _ := machine(t)
	_, err := Ownership{MAC: "ens5"}.Plan(t.Context(), h)
	assert.EqualError(t, err, `the primary interface's address "ens5" is not a MAC address`)
}
