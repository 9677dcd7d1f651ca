package scrub

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hostKeyRules has the rules for the host keys of sshd.
func hostKeyRules() []Rule {
	return []Rule{
		{
			ID: "ssh-host-keys", Phase: Identity, Groups: []string{"identity", "ssh"}, Verb: plan.Remove,
			Paths: []string{hostKeyGlob}, Owner: "sshd",
			Why:         "every node would identify itself with the same host keys",
			Regenerated: "cloud-init or sshd's key unit; without both, the keys stay and the rule reports them", Source: "virt-sysprep, vagrant-libvirt #1184",
			Applies: hostKeysComeBack,
		},
		{
			ID: "ssh-host-keys-elsewhere", Phase: Identity, Groups: []string{"identity", "ssh"}, Verb: Report,
			Owner:       "sshd",
			Why:         "host keys that HostKey names in other places are the same on every node, and no unit creates others there; without keys, sshd does not start",
			Regenerated: "nothing", Source: "sshd_config(5)",
			Find: hostKeysElsewhere,
		},
	}
}

const hostKeyGlob = "/etc/ssh/ssh_host_*_key*"

// hostKeyMakers are the units that create missing SSH host keys at boot:
// cloud-init on cloud images, sshd's own on Arch, Fedora, RHEL and SUSE.
var hostKeyMakers = slices.Concat(cloudInitUnits, []string{"sshdgenkeys.service", "sshd-keygen.target", "sshd-keygen.service", "sshd-keygen@.service", "ssh-keygen.service", "coreos-sshkeys.service"})

// hostKeysComeBack reports whether a unit creates new host keys at boot.
// Without one, removing the keys would lock everybody out.
func hostKeysComeBack(_ context.Context, h *host.Host) (bool, plan.Answer, error) {
	off, err := cloudInitOff(h)
	if err != nil {
		return false, plan.Answer{}, err
	}
	for i, unit := range hostKeyMakers {
		if off != "" && i < len(cloudInitUnits) {
			continue
		}
		there, err := h.HasUnit(unit)
		if err != nil || there {
			return there, plan.Answer{}, err
		}
	}
	if there, err := sshdMakesKeys(h); err != nil || there {
		return there, plan.Answer{}, err
	}
	keys, err := glob(h, hostKeyGlob)
	if err != nil || len(keys) == 0 {
		return false, plan.Answer{}, err
	}
	searched, remedy := strings.Join(hostKeyMakers, ", "), "install cloud-init"
	if off != "" {
		searched, remedy = searched+"; cloud-init creates none: "+off, "let cloud-init run"
	}
	return false, plan.Finds(keys[0], fmt.Sprintf("no unit on this machine creates SSH host keys at boot (searched for %s), so the keys stay: %s, or skip the rule to accept shared keys", searched, remedy)), nil
}

// sshdMakesKeys reports whether sshd's own unit creates missing keys before it
// starts sshd, as on SUSE.
func sshdMakesKeys(h *host.Host) (bool, error) {
	names, _, err := matching(h, []string{
		"/etc/systemd/system/ssh*.service", "/usr/lib/systemd/system/ssh*.service", "/lib/systemd/system/ssh*.service",
		"/etc/systemd/system/ssh*.service.d/*.conf", "/usr/lib/systemd/system/ssh*.service.d/*.conf",
	})
	if err != nil {
		return false, err
	}
	for _, name := range names {
		if st, err := h.Files.Stat(name); leadsNowhere(err) || err == nil && st.IsDir() {
			continue
		}
		text, err := h.Content(name)
		if err != nil {
			return false, err
		}
		if makesKeys().Match(text) {
			return true, nil
		}
	}
	return false, nil
}

var makesKeys = expression(`(?m)^\s*ExecStart(Pre)?\s*=.*(sshd-gen-keys-start|ssh-keygen\s+-A)`)

// hostKeysElsewhere reports host keys that HostKey names in other places than
// sshd's default.
func hostKeysElsewhere(_ context.Context, h *host.Host) (plan.Answer, error) {
	config, err := readSSHD(h)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, s := range config.all("hostkey") {
		name := path.Clean(s.args[0])
		if !path.IsAbs(name) || kept([]string{hostKeyGlob}, name) || about(answer.Findings, name) {
			continue
		}
		there, err := h.Exists(name)
		if err != nil {
			return plan.Answer{}, err
		}
		if there {
			answer.Find(name, fmt.Sprintf("a host key that every node would share, named in %s:%d: remove the key, and let a unit create it at boot before sshd starts", s.file, s.line))
		}
	}
	return answer, nil
}
