package scrub

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// iscsiRules has the rule for the name of the iSCSI initiator.
func iscsiRules() []Rule {
	return []Rule{
		{
			ID: "iscsi-initiator", Phase: Identity, Groups: []string{"identity"}, Verb: plan.Remove,
			Paths: []string{initiatorName}, Owner: "open-iscsi",
			Why:         "nodes with the same initiator name take each other's volumes",
			Regenerated: "iscsi-init.service; without it, the file stays and the rule reports it", Source: "gardenlinux #3188",
			Find: staleInitiator,
		},
	}
}

const initiatorName = "/etc/iscsi/initiatorname.iscsi"

// staleInitiator plans the removal of the iSCSI initiator's name if a unit
// creates a new name at boot: iscsid does not start without a name. Debian's
// file may request a new name (GenerateName=yes), and then contains none.
func staleInitiator(_ context.Context, h *host.Host) (plan.Answer, error) {
	if st, err := h.Files.Lstat(initiatorName); err != nil || !st.Mode().IsRegular() {
		return plan.Answer{}, ignoreMissing(err)
	}
	text, err := h.Content(initiatorName)
	if err != nil || !bytes.Contains(text, []byte("InitiatorName=")) {
		return plan.Answer{}, err
	}
	there, err := h.HasUnit("iscsi-init.service")
	if err != nil {
		return plan.Answer{}, err
	}
	if there {
		return plan.Acts(removeAction(h, initiatorName, "belongs to the builder machine")), nil
	}
	return plan.Finds(initiatorName, "no unit on this machine creates a new name at boot, and iscsid needs one: on Debian, write GenerateName=yes into the file; otherwise remove the package of iscsid"), nil
}
