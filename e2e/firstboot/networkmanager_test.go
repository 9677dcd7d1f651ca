//go:build e2e

package firstboot_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// withNetworkManager makes a real NetworkManager manage the primary interface
// and all others.
const withNetworkManager = `export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -yq --no-install-recommends network-manager
systemctl start NetworkManager
nmcli connection add type ethernet con-name primary ifname %[1]s 802-3-ethernet.mac-address %[2]s ipv4.method auto ipv6.method disabled
systemctl stop systemd-networkd.socket systemd-networkd
nmcli connection up primary
ip route get %[3]s | grep -w "dev %[1]s"
nmcli --terse --fields DEVICE,STATE,CONNECTION device | grep -x "%[1]s:connected:primary"`

// TestNetworkManagerLeavesSecondaryInterfaces runs a real NetworkManager.
// Secondary interfaces appear before and after the boot hook. The interfaces of
// a container have the driver veth: the test replaces ENA's driver name by it,
// because there is no ENA hardware here. There is no udev in a container
// either; virtual machines test its part.
func TestNetworkManagerLeavesSecondaryInterfaces(t *testing.T) {
	w := openLab(t, machine.Nspawn)
	n := w.launch(t, machine.Config{Root: w.Root, InstanceID: "i-network-manager"})
	n.Upload(t, lab.Agent(t), "/home/admin/eksnode")
	mac := machine.MAC(n.Address()).String()
	primary := n.sh("grep -lx %s /sys/class/net/*/address | cut -d/ -f5", mac)
	n.sh(withNetworkManager, primary, mac, w.HostAddress())

	state := func(name string) string {
		return n.sh("nmcli --terse --fields DEVICE,STATE device | sed -n 's/^%s://p'", name)
	}
	plug := func(name string) {
		n.sh("ip link add %s type veth peer name peer-%s && ip link set %s up && ip link set peer-%s up", name, name, name, name)
		n.await("NetworkManager knows "+name, "nmcli --terse --fields DEVICE device | grep -x %s", name)
	}
	plug("eth7")
	assert.NotEqual(t, "unmanaged", state("eth7"), "without the boot hook NetworkManager manages the interface")

	n.sh("/home/admin/eksnode boot-hook")
	const file = "/run/NetworkManager/conf.d/05-eksnode-secondary.conf"
	n.sh(`grep -q 'driver:ena,' %[1]s && sed -i 's/driver:ena,/driver:veth,/' %[1]s && systemctl reload NetworkManager`, file)
	assert.Contains(t, n.sh("NetworkManager --print-config"), "match-device=driver:veth,", "NetworkManager reads the file")
	plug("eth8")
	n.await("NetworkManager leaves eth8 alone", "nmcli --terse --fields DEVICE,STATE device | grep -x eth8:unmanaged")
	assert.Empty(t, n.sh("ip -brief -4 address show dev eth8 | awk '{print $3}'"))
	n.sh("nmcli connection up primary")
	assert.Equal(t, "connected", state(primary), "the primary interface is identified by its address, because it has the same driver")
	// NetworkManager keeps an interface that it managed before the boot hook until
	// `nmcli device set` releases it by name. The hook does this for EC2's
	// interfaces.
	n.sh("nmcli device set eth7 managed no")
	n.sh("systemctl restart NetworkManager")
	n.await("NetworkManager keeps the primary interface after a restart", "nmcli --terse --fields DEVICE,STATE device | grep -x %s:connected", primary)
	n.await("NetworkManager leaves eth8 alone after a restart", "nmcli --terse --fields DEVICE,STATE device | grep -x eth8:unmanaged")
	n.await("NetworkManager leaves eth7 alone", "nmcli --terse --fields DEVICE,STATE device | grep -x eth7:unmanaged")
}
