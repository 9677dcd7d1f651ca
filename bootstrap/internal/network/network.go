// Package network reserves a node's secondary network interfaces for the VPC CNI,
// which attaches and configures them while the node runs. The distribution's network
// manager keeps the primary interface only. A network manager that configures a
// secondary interface adds routes and rules that break pods.
//
// The driver and the primary interface's MAC address identify the interfaces. Names
// do not: ens5 is the primary interface on some instance types and a secondary
// interface on others (kubernetes/kops#18642). The MAC address is known only on the
// instance, so all files are written at boot, below /run.
package network

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// drivers lists the drivers of EC2's network interfaces: one for Nitro, two for Xen.
var drivers = []string{"ena", "ixgbevf", "vif"}

// Property is the udev property of an interface that belongs to the VPC CNI.
const Property = "EKSNODE_SECONDARY"

// subject is the name of this item in the record of started services.
const subject = "network-ownership"

// Ownership is the item that reserves the secondary interfaces for the VPC CNI.
type Ownership struct {
	// MAC is the primary interface's MAC address.
	MAC string
}

// ID implements plan.Item.
func (Ownership) ID() string { return subject }

// Phase implements plan.Item.
func (Ownership) Phase() string { return "network" }

// Plan implements plan.Item. Done means that every installed network manager has its
// files and has read them.
func (o Ownership) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if hw, err := net.ParseMAC(o.MAC); err != nil || len(hw) != 6 {
		return plan.Answer{}, fmt.Errorf("the primary interface's address %q is not a MAC address", o.MAC)
	}
	var answer plan.Answer
	var digest service.Digest
	reload, err := mask(h, &answer, &digest)
	if err != nil {
		return plan.Answer{}, err
	}
	for _, m := range managers() {
		there, err := exists(h, m.paths...)
		if err != nil {
			return plan.Answer{}, fmt.Errorf("looking for %s: %w", m.name, err)
		}
		if !there {
			continue
		}
		more, err := m.plan(h, o.MAC, &digest)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Act(more...)
		reload = append(reload, m.reload...)
	}
	if digest.IsEmpty() || !h.HasSystemd() {
		return answer, nil
	}
	done, err := service.IsStartedWith(h, subject, digest.Sum())
	if err != nil || done && answer.IsEmpty() {
		return answer, err
	}
	answer.Act(plan.Action{Verb: plan.Run, Target: "reload the network managers", Reason: "the network managers must read their changed files",
		Do: func(ctx context.Context, _ plan.Progress) error {
			present, err := secondaries(h, o.MAC)
			if err != nil {
				return err
			}
			for _, r := range reload {
				for _, r := range r.of(present) {
					if err := r.run(ctx, h); err != nil {
						return err
					}
				}
			}
			return service.RecordStart(h, subject, digest.Sum())
		}})
	return answer, nil
}

// mask masks, until the next boot, the units that configure interfaces without a
// network manager. The returned commands stop those that run.
func mask(h *host.Host, answer *plan.Answer, digest *service.Digest) ([]reload, error) {
	stop := []string{"systemctl", "stop"}
	for _, u := range competitors() {
		// Only a package's unit counts, not the masks in /run.
		there, err := exists(h,
			"/usr/lib/systemd/system/"+u.name, "/lib/systemd/system/"+u.name, "/etc/systemd/system/"+u.name)
		if err != nil {
			return nil, err
		}
		if !there {
			continue
		}
		link, err := plan.Links(h, []plan.SymbolicLink{{Path: "/run/systemd/system/" + u.name, To: "/dev/null", Why: u.why}})
		if err != nil {
			return nil, err
		}
		digest.Add(u.name, nil)
		answer.Act(link...)
		// All instances of a template.
		stop = append(stop, strings.Replace(u.name, "@.", "@*.", 1))
	}
	if len(stop) == 2 {
		return nil, nil
	}
	return []reload{{argv: []string{"systemctl", "daemon-reload"}}, {argv: stop}}, nil
}

// plan returns the actions that write a manager's files and links.
func (m manager) plan(h *host.Host, mac string, digest *service.Digest) ([]plan.Action, error) {
	var files []plan.File
	for _, f := range m.files {
		content := strings.NewReplacer("{mac}", strings.ToLower(mac), "{MAC}", strings.ToUpper(mac),
			"{drivers|}", strings.Join(drivers, "|"), "{drivers,}", "driver:"+strings.Join(drivers, ",driver:")).Replace(f.content)
		files = append(files, plan.File{Path: f.path, Mode: 0o644, Content: []byte(content), Why: f.why})
		digest.Add(f.path, []byte(content))
	}
	actions, err := plan.Files(h, files)
	if err != nil {
		return nil, err
	}
	for _, rule := range m.masks {
		// Rules in /etc override those in /run; rules of packages do not.
		shipped, err := exists(h, "/usr/lib/udev/rules.d/"+rule, "/lib/udev/rules.d/"+rule)
		if err != nil {
			return nil, err
		}
		if !shipped {
			continue
		}
		mask, err := plan.Links(h, []plan.SymbolicLink{{Path: "/run/udev/rules.d/" + rule, To: "/dev/null", Why: "the rule configures every interface that appears"}})
		if err != nil {
			return nil, err
		}
		digest.Add(rule, nil)
		actions = append(actions, mask...)
	}
	return actions, nil
}

func exists(h *host.Host, names ...string) (bool, error) {
	for _, name := range names {
		if there, err := h.Exists(name); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// secondaries lists the existing secondary interfaces.
func secondaries(h *host.Host, mac string) ([]string, error) {
	const interfaces = "/sys/class/net"
	entries, err := afero.ReadDir(h.Files, interfaces)
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		driver, err := h.Files.ReadlinkIfPossible(path.Join(interfaces, e.Name(), "device/driver"))
		if err != nil || !slices.Contains(drivers, path.Base(driver)) {
			continue // a virtual interface has no driver
		}
		address, err := h.Content(path.Join(interfaces, e.Name(), "address"))
		if err != nil {
			return nil, fmt.Errorf("listing network interfaces: %w", err)
		}
		if !strings.EqualFold(strings.TrimSpace(string(address)), mac) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

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
