// Package network settles who owns the network interfaces of a node: the
// primary one stays with the distribution's own network manager, all others
// belong to the VPC CNI, which attaches and configures them while the node
// runs. A manager that takes hold of one adds routes and rules that break pods.
//
// Interfaces are told apart by their driver and the primary's MAC address,
// never by name: ens5 is the primary on some instance types and another's
// secondary on others (kubernetes/kops#18642). The address is known only on the
// instance, so everything is written at boot, below /run.
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

// drivers are those of EC2's network interfaces: Nitro's, and Xen's two.
var drivers = []string{"ena", "ixgbevf", "vif"}

// Property marks an interface that belongs to the VPC CNI, in udev's database.
const Property = "EKSNODE_SECONDARY"

// subject names the ownership in the record of what was service.
const subject = "network-ownership"

// Ownership is the plan that gives the secondary interfaces to the VPC CNI.
type Ownership struct {
	// MAC is the primary interface's address.
	MAC string
}

// ID implements plan.Item.
func (Ownership) ID() string { return subject }

// Phase implements plan.Item.
func (Ownership) Phase() string { return "network" }

// Plan implements plan.Item. Done means that the files are there for every
// network manager the machine has, and that each has read them.
func (o Ownership) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	if hw, err := net.ParseMAC(o.MAC); err != nil || len(hw) != 6 {
		return plan.Answer{}, fmt.Errorf("the primary interface's address %q is no MAC address", o.MAC)
	}
	var answer plan.Answer
	var digest service.Digest
	reload, err := mask(h, &answer, &digest)
	if err != nil {
		return plan.Answer{}, err
	}
	for _, m := range managers() {
		there, err := m.isThere(h)
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
	answer.Act(plan.Action{Verb: plan.Run, Target: "reload the network managers", Reason: "they read who owns which interface",
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

// mask keeps, until the next boot, the units from starting that configure
// interfaces behind the managers' backs; the commands stop those that run.
func mask(h *host.Host, answer *plan.Answer, digest *service.Digest) ([]reload, error) {
	stop := []string{"systemctl", "stop"}
	for _, u := range meddlers() {
		there, err := hasUnitFile(h, u.name)
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

// plan plans a manager's files and links.
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
		// Rules in /etc stand above /run; those of packages lie below.
		shipped, err := exists(h, "/usr/lib/udev/rules.d/"+rule, "/lib/udev/rules.d/"+rule)
		if err != nil {
			return nil, err
		}
		if !shipped {
			continue
		}
		mask, err := plan.Links(h, []plan.SymbolicLink{{Path: "/run/udev/rules.d/" + rule, To: "/dev/null", Why: "it configures every interface that appears"}})
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

// hasUnitFile looks where packages install units; /run, where the masks go, is
// not looked at.
func hasUnitFile(h *host.Host, name string) (bool, error) {
	return exists(h, "/usr/lib/systemd/system/"+name, "/lib/systemd/system/"+name, "/etc/systemd/system/"+name)
}

// secondaries lists the interfaces besides the primary that are there already.
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
