package network

import (
	"context"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// manager is a program that configures network interfaces, with its files.
type manager struct {
	name string
	// paths identify an installed manager: any one is enough.
	paths []string
	files []file
	// masks lists udev rules of its packages that configure interfaces.
	masks  []string
	reload []reload
}

// file is a file of a manager. The placeholders {mac} and {MAC} in its content are the
// primary interface's address; {drivers|} and {drivers,} are the drivers.
type file struct{ path, content, why string }

func (m manager) isThere(h *host.Host) (bool, error) { return exists(h, m.paths...) }

// reload is a command that makes a manager read its files again.
type reload struct {
	argv []string
	// unit, if not empty, must be running, and socket, if not empty, must exist.
	unit, socket string
	// early replaces argv before D-Bus runs, for example before sysinit.target.
	early []string
	// present limits the command to machines that already have a secondary
	// interface. Interfaces that appear later use the new files anyway.
	present bool
	// each runs the command once for each secondary interface, with its name in
	// place of interfaceName.
	each bool
}

const interfaceName = "{interface}"

// of returns the commands to run if these secondary interfaces exist.
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
	// udevSocket is udevd's socket. Containers have no udevd.
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

// managers returns the network managers in reload order: udev first, because the
// others match udev's properties.
//
// networkd and NetworkManager cover netplan, which writes their configuration.
// ifupdown and wicked have no such files: a hot-plug program that udev runs gives
// them an interface, and the udev rule disables that program.
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
					"[device-eksnode-pods]\nmatch-device=driver:veth,except:interface-name:eth*,except:interface-name:host0\nmanaged=0\n",
				"keeps NetworkManager off the VPC CNI's interfaces",
			}},
			reload: []reload{
				{argv: []string{"systemctl", "reload", "NetworkManager.service"}, unit: "NetworkManager.service"},
				// NetworkManager keeps an interface that it already manages, also
				// after a reload.
				{argv: []string{"nmcli", "device", "set", interfaceName, "managed", "no"}, unit: "NetworkManager.service", each: true},
			},
		},
	}
}

// competitor is a unit that configures interfaces without a network manager.
type competitor struct{ name, why string }

func competitors() []competitor {
	const nm, suse, init, amazon = "nm-cloud-setup moves addresses into routing tables of its own",
		"cloud-netconfig gives every interface routes", "cloud-init configures interfaces that appear later", "amazon-ec2-net-utils gives every interface policy routes"
	return []competitor{
		{"nm-cloud-setup.timer", nm}, {"nm-cloud-setup.service", nm},
		{"cloud-netconfig.timer", suse}, {"cloud-netconfig.service", suse},
		{"cloud-init-hotplugd.socket", init}, {"cloud-init-hotplugd.service", init},
		{"policy-routes@.service", amazon}, {"refresh-policy-routes@.timer", amazon}, {"refresh-policy-routes@.service", amazon},
	}
}
