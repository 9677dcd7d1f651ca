package scrub

import (
	"context"
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// hostKeyRules holds the row of sshd's own keys.
func hostKeyRules() []Rule {
	return []Rule{
		{
			ID: "ssh-host-keys", Phase: Identity, Groups: []string{"identity", "ssh"}, Verb: plan.Remove,
			Paths: []string{hostKeyGlob}, Owner: "sshd",
			Why:         "every node would prove itself with the same keys",
			Regenerated: "cloud-init or sshd's key unit; where there is none, the keys stay and are reported", Source: "virt-sysprep, vagrant-libvirt #1184",
			Applies: hostKeysComeBack,
		},
	}
}

const hostKeyGlob = "/etc/ssh/ssh_host_*_key*"

// hostKeyMakers are the units that make missing SSH host keys at boot:
// cloud-init on cloud images, sshd's own on Arch, Fedora, RHEL and SUSE.
var hostKeyMakers = []string{"cloud-init.service", "cloud-init-network.service", "sshdgenkeys.service", "sshd-keygen.target", "sshd-keygen.service", "sshd-keygen@.service", "ssh-keygen.service", "coreos-sshkeys.service"}

// hostKeysComeBack says whether something makes new host keys at boot. Where
// nothing does, removing them would lock everybody out.
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
	return false, plan.Finds(keys[0], fmt.Sprintf("nothing on this machine makes SSH host keys at boot (looked for %s), so they were left: install cloud-init, or accept shared keys by skipping the rule", strings.Join(hostKeyMakers, ", "))), nil
}
