package network

import (
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// manager is one program that configures interfaces, and what it reads.
type manager struct {
	name string
	// paths tell that the machine has it: any of them.
	paths []string
	files []file
	// masks are udev rules of its packages that take hold of interfaces.
	masks  []string
	reload []reload
}

// file has {mac}, {MAC}, {drivers|} and {drivers,} for the primary's address
// and the drivers.
type file struct{ path, content, why string }

func (m manager) isThere(h *host.Host) (bool, error) { return exists(h, m.paths...) }

// reload is a command that makes a manager read its files.
type reload struct {
	argv []string
	// unit, if not empty, must be running for it, and socket be there.
	unit, socket string
	// early replaces argv while there is no D-Bus yet, as before sysinit.target.
	early []string
	// present says that it is needed only when a secondary interface is there
	// already: those that appear later find everything in place.
	present bool
	// each says that it is run for each of those, whose name replaces
	// interfaceName in argv.
	each bool
}

const interfaceName = "{interface}"

// of is what to run where these secondary interfaces are there already.
func (r reload) of(present []string) []reload {
	switch {
	case r.each:
		list := make([]reload, len(present))
		for i, name := range present {
			list[i] = r
			list[i].argv = slices.Clone(r.argv)
			for j, word := range r.argv {
				list[i].argv[j] = strings.ReplaceAll(word, interfaceName, name)
			}
		}
		return list
	case r.present && len(present) == 0:
		return nil
	default:
		return []reload{r}
	}
}

const (
	bus = "/run/dbus/system_bus_socket"
	// udevSocket is udevd's; in a container nobody serves it.
	udevSocket = "/run/udev/control"
)

func (r reload) run(ctx context.Context, h *host.Host) error {
	if r.socket != "" {
		if there, err := h.Exists(r.socket); err != nil || !there {
			return err
		}
	}
	if r.unit != "" {
		if active, err := h.IsActive(ctx, r.unit); err != nil || !active {
			return err
		}
	}
	argv := r.argv
	if r.early != nil {
		there, err := h.Exists(bus)
		if err != nil {
			return err
		}
		if !there {
			argv = r.early
		}
	}
	_, err := h.Run(ctx, host.Command{Argv: argv})
	return err
}

// managers are in the order in which they reload: udev's properties first,
// because the others match by them.
//
// netplan writes for networkd or NetworkManager, so these two cover it.
// ifupdown and wicked have no such files: what makes them take an interface is
// a hot-plug program that udev runs, which the rule forbids.
func managers() []manager {
	return []manager{
		{
			name:  "udev",
			paths: []string{"/usr/bin/udevadm", "/bin/udevadm", "/sbin/udevadm"},
			files: []file{{
				"/run/udev/rules.d/05-eksnode-secondary.rules",
				"# Written by eksnode: interfaces other than the primary belong to the VPC CNI.\n" +
					`SUBSYSTEM=="net", ACTION!="remove", DRIVERS=="{drivers|}", ATTR{address}!="{mac}", ` +
					`ENV{` + Property + `}="1", ENV{ID_NET_MANAGED_BY}="amazon-vpc-cni", ENV{NM_UNMANAGED}="1", RUN:="/bin/true"` + "\n",
				"marks the interfaces that belong to the VPC CNI, and keeps hot-plug programs off them",
			}},
			masks: []string{
				"99-vpc-policy-routes.rules",       // amazon-ec2-net-utils
				"61-cloud-netconfig-hotplug.rules", // cloud-netconfig of SUSE
				"51-cloud-netconfig-hotplug.rules",
				"75-cloud-ifupdown.rules", // Debian's cloud images
			},
			reload: []reload{
				{argv: []string{"udevadm", "control", "--reload"}, socket: udevSocket},
				{argv: []string{"udevadm", "trigger", "--subsystem-match=net", "--action=change"}, socket: udevSocket, present: true},
				{argv: []string{"udevadm", "settle", "--timeout=30"}, socket: udevSocket, present: true}, // trigger --settle came with systemd 238
			},
		},
		{
			name:  "systemd-networkd",
			paths: []string{"/usr/lib/systemd/systemd-networkd", "/lib/systemd/systemd-networkd"},
			files: []file{{
				"/run/systemd/network/05-eksnode-secondary.network",
				"# Written by eksnode: interfaces other than the primary belong to the VPC CNI.\n" +
					"[Match]\nProperty=" + Property + "=1\n\n[Link]\nUnmanaged=yes\n",
				"keeps networkd off the VPC CNI's interfaces",
			}},
			reload: []reload{{
				argv: []string{"networkctl", "reload"}, unit: "systemd-networkd.service",
				early: []string{"systemctl", "restart", "systemd-networkd.service"}, present: true,
			}},
		},
		{
			name:  "NetworkManager",
			paths: []string{"/usr/sbin/NetworkManager", "/usr/bin/NetworkManager"},
			files: []file{{
				"/run/NetworkManager/conf.d/05-eksnode-secondary.conf",
				"# Written by eksnode: interfaces other than the primary belong to the VPC CNI.\n" +
					"[device-eksnode-secondary]\nmatch-device={drivers,},except:mac:{MAC}\nmanaged=0\n\n" +
					"[device-eksnode-pods]\nmatch-device=driver:veth,except:interface-name:eth*\nmanaged=0\n",
				"keeps NetworkManager off the VPC CNI's interfaces",
			}},
			reload: []reload{
				{argv: []string{"systemctl", "reload", "NetworkManager.service"}, unit: "NetworkManager.service"},
				// One that it has taken already it keeps, whatever it reads.
				{argv: []string{"nmcli", "device", "set", interfaceName, "managed", "no"}, unit: "NetworkManager.service", each: true},
			},
		},
	}
}

// meddler is a unit that configures interfaces besides the manager.
type meddler struct{ name, why string }

func meddlers() []meddler {
	const nm, suse, init, amazon = "nm-cloud-setup moves addresses into routing tables of its own",
		"cloud-netconfig gives every interface routes", "cloud-init configures interfaces that appear later", "amazon-ec2-net-utils gives every interface policy routes"
	return []meddler{
		{"nm-cloud-setup.timer", nm}, {"nm-cloud-setup.service", nm},
		{"cloud-netconfig.timer", suse}, {"cloud-netconfig.service", suse},
		{"cloud-init-hotplugd.socket", init}, {"cloud-init-hotplugd.service", init},
		{"policy-routes@.service", amazon}, {"refresh-policy-routes@.timer", amazon}, {"refresh-policy-routes@.service", amazon},
	}
}
