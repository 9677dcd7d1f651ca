package scrub

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// instanceStoreRules are the rows of the instance store, on which a first boot puts
// the node's folders.
func instanceStoreRules() []Rule {
	g := []string{"bootstrap"}
	return []Rule{
		{
			ID: "instance-store-mounted", Phase: Unmount, Groups: g, Verb: plan.Unmount,
			Owner:       "eksnode init, setup-local-disks",
			Why:         "a first boot puts the kubelet's, containerd's and the pods' folders on the instance store; what it left in the image's own folders is hidden below, and would be captured unseen",
			Regenerated: "first boot", Source: "amazon-eks-ami setup-local-disks",
			Find: instanceStore,
		},
		{
			ID: "local-disks", Phase: State, Groups: g, Verb: plan.Remove,
			Paths: []string{"/.aws/mdadm.conf", "/etc/systemd/system/*.mount", "/etc/systemd/system/*.wants/*.mount"},
			Owner: "eksnode init, setup-local-disks",
			Why:   "units that mount another machine's instance store by its UUIDs, with the folders on it; other units stay", Regenerated: "first boot", Source: "amazon-eks-ami setup-local-disks",
			Find: localDisks,
		},
	}
}

// mountUnit is a unit of /etc/systemd/system that mounts an instance store's
// disks, or a folder that lies on them.
type mountUnit struct {
	path        string // of the unit's file
	what, where string
	bind        bool
}

func (u mountUnit) name() string { return path.Base(u.path) }

// instanceStoreUnits are those that a first boot made: `eksnode init` marks
// them, Amazon's setup-local-disks describes them, and what is bound to a
// folder on their disks is theirs too. Folders come before the disks they lie
// on, so that they can be unmounted in this order.
func instanceStoreUnits(h *host.Host) ([]mountUnit, error) {
	names, err := glob(h, "/etc/systemd/system/*.mount")
	if err != nil {
		return nil, err
	}
	var all, own []mountUnit
	for _, name := range names {
		st, err := h.Files.Lstat(name)
		if isMissing(err) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, err
		}
		text, err := h.Content(name)
		if err != nil {
			return nil, err
		}
		u := parseMountUnit(name, text)
		if isInits(text) || bytes.Contains(text, []byte("\nDescription=Mount EC2 Instance Store NVMe disk")) || strings.HasPrefix(u.where, "/mnt/k8s-disks/") {
			own = append(own, u)
		} else {
			all = append(all, u)
		}
	}
	for _, u := range all {
		if u.bind && slices.ContainsFunc(own, func(o mountUnit) bool { return !o.bind && strings.HasPrefix(u.what, o.where+"/") }) {
			own = append(own, u)
		}
	}
	slices.SortStableFunc(own, func(a, b mountUnit) int {
		switch {
		case a.bind == b.bind:
			return 0
		case a.bind:
			return -1
		}
		return 1
	})
	return own, nil
}

func parseMountUnit(name string, text []byte) mountUnit {
	u := mountUnit{path: name}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "What":
			u.what = value
		case "Where":
			u.where = path.Clean(value)
		case "Options":
			u.bind = slices.Contains(strings.Split(value, ","), "bind")
		}
	}
	return u
}

// instanceStore unmounts the instance store, so that the image's own folders
// below come to light: what first boot left in them would be in the image, and
// nobody would have seen it.
func instanceStore(_ context.Context, h *host.Host) (plan.Answer, error) {
	if !h.IsLive() {
		return plan.Answer{}, nil // nothing of the image is mounted there
	}
	units, err := instanceStoreUnits(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, u := range units {
		mounted, err := h.Files.IsMountPoint(u.where)
		if err != nil {
			return plan.Answer{}, err
		}
		if mounted {
			answer.Act(plan.Action{Verb: plan.Unmount, Target: u.where, Reason: "the instance store hides what the image itself has there",
				Do: func(ctx context.Context, _ plan.Progress) error { return u.unmount(ctx, h) }})
		}
	}
	return answer, nil
}

// unmount ends the mount, with containerd stopped while it is containerd's.
func (u mountUnit) unmount(ctx context.Context, h *host.Host) error {
	if !h.HasSystemd() {
		return h.Unmount(u.where)
	}
	stop := func() error {
		_, err := h.Run(ctx, host.Command{Argv: []string{"systemctl", "stop", u.name()}})
		if err != nil {
			return fmt.Errorf("%w; stop what uses %s", err, u.where)
		}
		return nil
	}
	if u.where != "/var/lib/containerd" {
		return stop()
	}
	return withoutContainerd(ctx, h, stop)
}

// localDisks plans the removal of the units, of the links that start them, and
// of the array's configuration.
func localDisks(_ context.Context, h *host.Host) (plan.Answer, error) {
	units, err := instanceStoreUnits(h)
	if err != nil {
		return plan.Answer{}, err
	}
	const why = "it mounts the disks of another machine"
	var answer plan.Answer
	for _, u := range units {
		links, err := h.Enablements(u.name())
		if err != nil {
			return plan.Answer{}, err
		}
		for _, name := range append(links, u.path) {
			answer.Act(removeAction(h, name, why))
		}
	}
	// Links that a unit has left are dead.
	dead, err := glob(h, "/etc/systemd/system/*.wants/mnt-k8s*disks-*.mount")
	if err != nil {
		return plan.Answer{}, err
	}
	for _, name := range append(dead, "/.aws/mdadm.conf") {
		if slices.ContainsFunc(answer.Actions, func(a plan.Action) bool { return a.Target == name }) {
			continue
		}
		a, err := planPath(h, plan.Remove, name, why)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
}
