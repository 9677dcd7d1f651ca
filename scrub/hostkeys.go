package scrub

import (
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hostKeyRules has the rule for the host keys of sshd.
func hostKeyRules() []Rule {
	return []Rule{
		{
			ID: "ssh-host-keys", Phase: Identity, Groups: []string{"identity", "ssh"}, Verb: plan.Remove,
			Paths: []string{hostKeyGlob}, Owner: "sshd",
			Why:         "every node would identify itself with the same host keys",
			Regenerated: "cloud-init or sshd's key unit; without both, the keys stay and the rule reports them", Source: "virt-sysprep, vagrant-libvirt #1184",
			Applies: hostKeysComeBack,
		},
	}
}

const hostKeyGlob = "/etc/ssh/ssh_host_*_key*"

// hostKeyMakers are the units that create missing SSH host keys at boot:
// cloud-init on cloud images, sshd's own on Arch, Fedora, RHEL and SUSE.
var hostKeyMakers = []string{"cloud-init.service", "cloud-init-network.service", "sshdgenkeys.service", "sshd-keygen.target", "sshd-keygen.service", "sshd-keygen@.service", "ssh-keygen.service", "coreos-sshkeys.service"}

// hostKeysComeBack reports whether a unit creates new host keys at boot.
// Without one, removing the keys would lock everybody out.
func hostKeysComeBack(_ context.Context, h *host.Host) (bool, plan.Answer, error) {
	for _, unit := range hostKeyMakers {
		there, err := h.HasUnit(unit)
		if err != nil || there {
			return there, plan.Answer{}, err
		}
	}
	keys, err := glob(h, hostKeyGlob)
	if err != nil || len(keys) == 0 {
		return false, plan.Answer{}, err
	}
	return false, plan.Finds(keys[0], fmt.Sprintf("no unit on this machine creates SSH host keys at boot (searched for %s), so the keys stay: install cloud-init, or skip the rule to accept shared keys", strings.Join(hostKeyMakers, ", "))), nil
}
