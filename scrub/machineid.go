package scrub

import (
	"context"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// machineIDRules are the rules for the machine ID.
func machineIDRules() []Rule {
	g := []string{"identity"}
	return []Rule{
		{
			ID: "machine-id", Phase: Identity, Groups: g, Verb: plan.Empty,
			Paths: []string{"/etc/machine-id"}, Owner: "systemd",
			Why:         "every node would have the same machine ID",
			Regenerated: "systemd, at boot", Source: "machine-id(5)",
			Find: emptyMachineID,
		},
		{
			ID: "dbus-machine-id", Phase: Identity, Groups: g, Verb: plan.Remove,
			Paths: []string{"/var/lib/dbus/machine-id"}, Owner: "D-Bus",
			Why:         "an empty machine ID is filled from this file, the same on every node; a link stays",
			Regenerated: "D-Bus, systemd-tmpfiles", Source: "machine-id(5)",
			Find: dbusMachineID,
		},
	}
}

// emptyMachineID plans an empty /etc/machine-id. Without the file, journald or
// the whole boot fails. With the content "uninitialized", systemd would apply
// presets to every unit again.
func emptyMachineID(_ context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/machine-id"
	st, err := h.Files.Stat(name)
	if err == nil && !st.Mode().IsRegular() {
		return plan.Finds(name, "the file is not a regular file, and systemd needs an empty regular file: remove "+name), nil
	}
	if target, err := h.Files.ReadlinkIfPossible(name); err == nil {
		if there, err := h.Exists(name); err != nil || there {
			return emptyLinkedMachineID(h, name, target, err)
		}
	}
	if err == nil {
		return planEmpty(h, name, st, "this machine's ID; every node would have the same ID")
	}
	if there, existsErr := h.Exists(name); existsErr != nil || there {
		return plan.Answer{}, err
	}
	systemd, err := h.Exists("/etc/systemd")
	if err != nil || !systemd {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "missing, and systemd needs an empty file to create a machine ID",
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, nil, host.Attributes{Mode: 0o444})
		}}), nil
}

// dbusMachineID plans the removal of D-Bus's own copy of the ID.
func dbusMachineID(ctx context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/var/lib/dbus/machine-id"
	st, err := h.Files.Lstat(name)
	if err != nil || !st.IsDir() {
		if err = ignoreMissing(err); err != nil {
			return plan.Answer{}, err
		}
		return regularFile(name)(ctx, h)
	}
	empty, err := isEmpty(h, name)
	if err != nil {
		return plan.Answer{}, err
	}
	if !empty {
		return plan.Finds(name, "a folder with files stands in place of the file: remove "+name), nil
	}
	return planPath(h, plan.Remove, name, "an empty folder stands in place of the file")
}

// emptyLinkedMachineID plans the target of a link. A target in /run is created
// by each boot.
func emptyLinkedMachineID(h *host.Host, name, target string, err error) (plan.Answer, error) {
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(name), target)
	}
	if err != nil || strings.HasPrefix(target, "/run/") {
		return plan.Answer{}, err
	}
	text, err := h.Content(name)
	if err != nil || len(text) == 0 {
		return plan.Answer{}, err
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "points to this machine's ID; every node would have the same ID",
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, nil, attr) }}), nil
}
