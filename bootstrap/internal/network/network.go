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
	_ "embed"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/service"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// drivers lists the drivers of EC2's network interfaces: one for Nitro, two for Xen.
var drivers = []string{"ena", "ixgbevf", "vif"}

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
	for _, m := range table().Managers {
		there, err := exists(h, m.Paths...)
		if err != nil {
			return plan.Answer{}, fmt.Errorf("looking for %s: %w", m.Name, err)
		}
		if !there {
			continue
		}
		more, err := m.plan(h, o.MAC, &digest)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Act(more...)
		reload = append(reload, m.Reload...)
	}
	if digest.Sum() == "" || !h.HasSystemd() {
		return answer, nil
	}
	done, err := service.IsStartedWith(h, subject, digest.Sum())
	if err != nil || done && answer.IsEmpty() {
		return answer, err
	}
	answer.Act(plan.Action{
		Verb: plan.Run, Target: "reload the network managers",
		Reason: "the network managers must read their changed files",
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
		},
	})
	return answer, nil
}

// mask masks, until the next boot, the units that configure interfaces without a
// network manager. The returned commands stop those that run.
func mask(h *host.Host, answer *plan.Answer, digest *service.Digest) ([]reload, error) {
	stop := []string{"systemctl", "stop"}
	for _, c := range table().Competitors {
		for _, unit := range c.Units {
			// Only a package's unit counts, not the masks in /run.
			link, there, err := disable(h, "systemd/system/"+unit, c.Why, "/usr/lib", "/lib", "/etc")
			if err != nil {
				return nil, err
			}
			if !there {
				continue
			}
			digest.Add(unit, nil)
			answer.Act(link...)
			// All instances of a template.
			stop = append(stop, strings.Replace(unit, "@.", "@*.", 1))
		}
	}
	if len(stop) == 2 {
		return nil, nil
	}
	return []reload{{Argv: []string{"systemctl", "daemon-reload"}}, {Argv: stop}}, nil
}

// plan returns the actions that write a manager's files and links.
func (m manager) plan(h *host.Host, mac string, digest *service.Digest) ([]plan.Action, error) {
	var files []plan.File
	for _, f := range m.Files {
		content := strings.NewReplacer("{mac}", strings.ToLower(mac), "{MAC}", strings.ToUpper(mac),
			"{drivers|}", strings.Join(drivers, "|"), "{drivers,}",
			"driver:"+strings.Join(drivers, ",driver:")).Replace(f.Content)
		files = append(files, plan.File{Path: f.Path, Mode: 0o644, Content: []byte(content), Why: f.Why})
		digest.Add(f.Path, []byte(content))
	}
	actions, err := plan.Files(h, files)
	if err != nil {
		return nil, err
	}
	for _, rule := range m.Masks {
		// Rules in /etc override those in /run; rules of packages do not.
		why := "the rule configures every interface that appears"
		mask, there, err := disable(h, "udev/rules.d/"+rule, why, "/usr/lib", "/lib")
		if err != nil {
			return nil, err
		}
		if there {
			digest.Add(rule, nil)
			actions = append(actions, mask...)
		}
	}
	return actions, nil
}

// disable returns the actions that hide a file of systemd or udev until the next boot, and
// whether one of the folders has the file.
func disable(h *host.Host, name, why string, folders ...string) (actions []plan.Action, there bool, err error) {
	there, err = exists(h, show.Each(folders, func(folder string) string { return path.Join(folder, name) })...)
	if err == nil && there {
		actions, err = plan.Links(h, []plan.SymbolicLink{{Path: path.Join("/run", name), To: "/dev/null", Why: why}})
	}
	return actions, there, err
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

// managersFile lists the programs that configure network interfaces.
//
//go:embed managers.yaml
var managersFile []byte

// manager is a network manager, with its files.
type manager struct {
	Name string `yaml:"name"`
	// Paths identify an installed manager: any one is enough.
	Paths []string `yaml:"paths"`
	Files []struct {
		Path    string `yaml:"path"`
		Content string `yaml:"content"`
		Why     string `yaml:"why"`
	} `yaml:"files"`
	// Masks lists udev rules of its packages that configure interfaces.
	Masks  []string `yaml:"masks"`
	Reload []reload `yaml:"reload"`
}

// reload is a command that makes a manager read its files again.
type reload struct {
	Argv []string `yaml:"argv"`
	// Unit, if not empty, must be running, and Socket, if not empty, must exist.
	Unit   string `yaml:"unit"`
	Socket string `yaml:"socket"`
	// Early replaces Argv before D-Bus runs, for example before sysinit.target.
	Early []string `yaml:"early"`
	// Present limits the command to machines that already have a secondary
	// interface. Interfaces that appear later use the new files anyway.
	Present bool `yaml:"present"`
	// Each runs the command once for each secondary interface, with its name in
	// place of {interface}.
	Each bool `yaml:"each"`
}

var table = sync.OnceValue(func() (t struct {
	Managers    []manager
	Competitors []struct {
		Why   string
		Units []string
	}
}) {
	strictjson.Ours("managers.yaml", managersFile, &t)
	return t
})

// of returns the commands to run if these secondary interfaces exist.
func (r reload) of(present []string) []reload {
	switch {
	case r.Each:
		return show.Each(present, func(name string) reload {
			one, placeholder := r, strings.NewReplacer("{interface}", name)
			one.Argv = show.Each(r.Argv, placeholder.Replace)
			return one
		})
	case r.Present && len(present) == 0:
		return nil
	default:
		return []reload{r}
	}
}

func (r reload) run(ctx context.Context, h *host.Host) error {
	if r.Socket != "" {
		if there, err := h.Exists(r.Socket); err != nil || !there {
			return err
		}
	}
	if r.Unit != "" {
		if active, err := h.IsActive(ctx, r.Unit); err != nil || !active {
			return err
		}
	}
	argv := r.Argv
	if r.Early != nil {
		there, err := h.Exists("/run/dbus/system_bus_socket")
		if err != nil {
			return err
		}
		if !there {
			argv = r.Early
		}
	}
	_, err := h.Run(ctx, host.Command{Argv: argv})
	return err
}
