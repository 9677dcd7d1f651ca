package scrub

import (
	"bytes"
	"context"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// iscsiRules holds the row of the iSCSI initiator's name.
func iscsiRules() []Rule {
	return []Rule{
		{
			ID: "iscsi-initiator", Phase: Identity, Groups: []string{"identity"}, Verb: plan.Remove,
			Paths: []string{initiatorName}, Owner: "open-iscsi",
			Why:         "two nodes with one initiator name take each other's volumes",
			Regenerated: "iscsi-init.service; where it is missing, the file stays and is reported", Source: "gardenlinux #3188",
			Find: staleInitiator,
		},
	}
}

const initiatorName = "/etc/iscsi/initiatorname.iscsi"

// staleInitiator plans the removal of the iSCSI initiator's name where
// something makes a new one at boot: iscsid does not start without. Debian's
// file may itself ask for a name (GenerateName=yes), and then holds none.
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
		return plan.Acts(removeAction(h, initiatorName, "it is the build machine's own")), nil
	}
	return plan.Finds(initiatorName, "nothing on this machine makes a new name at boot, and iscsid needs one: write GenerateName=yes into it where open-iscsi is Debian's, or remove the package"), nil
}
