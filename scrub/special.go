package scrub

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// generatedContainerdConfig removes /etc/containerd/config.toml when a first
// boot wrote it or copied it from the template. One that the image recorded is
// restored; one that a package or a person put there stays.
func generatedContainerdConfig(ctx context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/containerd/config.toml"
	current, err := h.Content(name)
	if err != nil || current == nil {
		return plan.Answer{}, err
	}
	own, err := templateOf(h, name)
	if err != nil {
		return plan.Answer{}, err
	}
	if own != nil {
		return restore(name, reverseContainerdConfig)(ctx, h)
	}
	if !isInits(current) {
		copied, err := copiedFromTemplate(h, current)
		if err != nil || !copied {
			return plan.Answer{}, err
		}
	}
	return planPath(h, plan.Remove, name, "first boot wrote it")
}

// copiedFromTemplate says whether a configuration of containerd is the template
// filled in: as the image has it or as a user edited it, with a region's pause
// image or with one of the image's own.
func copiedFromTemplate(h *host.Host, current []byte) (bool, error) {
	tmpl, err := templateOf(h, templates.ContainerdConfig)
	if err != nil || tmpl == nil {
		return false, err
	}
	edited, err := h.Content(templates.ContainerdConfig)
	if err != nil {
		return false, err
	}
	back, err := reverseContainerdConfig(current, tmpl.Content)
	if err != nil {
		return false, nil // no bootstrap's file: it names no sandbox image
	}
	if !bytes.Equal(back.Content, current) {
		return true, nil // a region's pause image stood there
	}
	plain := withoutPause(current)
	return equivalent(plain, withoutPause(tmpl.Content)) || edited != nil && equivalent(plain, withoutPause(edited)), nil
}

// withoutPause puts SANDBOX_IMAGE in every pause image's place.
func withoutPause(text []byte) []byte {
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		if m := sandboxLine().FindStringSubmatch(line); m != nil {
			lines[i] = m[1] + m[2] + sandboxPlaceholder + m[4] + m[5]
		}
	}
	return []byte(strings.Join(lines, "\n"))
}

// copiedUnits removes the units that bootstrap.sh copies into
// /etc/systemd/system from the image's own folder; the originals stay.
func copiedUnits(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	for original, copied := range map[string]string{
		"/etc/eks/containerd/kubelet-containerd.service": "/etc/systemd/system/kubelet.service",
		"/etc/eks/containerd/sandbox-image.service":      "/etc/systemd/system/sandbox-image.service",
	} {
		there, err := h.Exists(original)
		if err != nil {
			return plan.Answer{}, err
		}
		own, err := templateOf(h, copied)
		if err != nil {
			return plan.Answer{}, err
		}
		if !there || own != nil {
			continue
		}
		a, err := planPath(h, plan.Remove, copied, "the bootstrap copied it from "+original)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
}

// savedKubeRules removes saved firewall rules that hold a cluster's chains;
// others are an administrator's.
func savedKubeRules(_ context.Context, h *host.Host) (plan.Answer, error) {
	return removeWhere(h, "it holds the old cluster's chains", func(text []byte) bool {
		return bytes.Contains(text, []byte("KUBE-")) || bytes.Contains(text, []byte("AWS-SNAT-CHAIN"))
	},
		"/etc/sysconfig/iptables", "/etc/sysconfig/ip6tables", "/etc/iptables/rules.v4", "/etc/iptables/rules.v6",
		"/etc/iptables/iptables.rules", "/etc/iptables/ip6tables.rules",
	)
}

// removeWhere plans the removal of those files whose content is so.
func removeWhere(h *host.Host, why string, so func([]byte) bool, names ...string) (plan.Answer, error) {
	var answer plan.Answer
	for _, name := range names {
		text, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		if !so(text) {
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

// emptyMachineID plans an empty /etc/machine-id. Without the file journald or
// the whole boot fails, and "uninitialized" would preset every unit again.
func emptyMachineID(_ context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/machine-id"
	if target, err := h.Files.ReadlinkIfPossible(name); err == nil {
		if there, err := h.Exists(name); err != nil || there {
			return emptyLinkedMachineID(h, name, target, err)
		}
	}
	st, err := h.Files.Stat(name)
	if err == nil && !st.Mode().IsRegular() {
		return plan.Finds(name, "not a regular file, and a boot needs an empty one: remove "+name), nil
	}
	if err == nil {
		return planEmpty(h, name, st, "it is this machine's id; every node would have the same")
	}
	if there, existsErr := h.Exists(name); existsErr != nil || there {
		return plan.Answer{}, err
	}
	systemd, err := h.Exists("/etc/systemd")
	if err != nil || !systemd {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "it is missing, and a boot needs an empty one",
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, nil, host.Attributes{Mode: 0o444})
		}}), nil
}

// emptyLinkedMachineID plans the id that a link leads to: one in /run is each
// boot's own.
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
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: "it leads to this machine's id; every node would have the same",
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, nil, attr) }}), nil
}

// ownLinesInHosts takes the lines out of /etc/hosts that give 127.0.1.1 this
// machine's name (Debian's custom, hosts(5); cloud-init writes it again), and
// those that `eksnode init` marked: an Outpost's addresses.
func ownLinesInHosts(_ context.Context, h *host.Host) (plan.Answer, error) {
	const name = "/etc/hosts"
	text, err := h.Content(name)
	if err != nil {
		return plan.Answer{}, err
	}
	kept, why := withoutOwnLines(string(text))
	if len(why) == 0 {
		return plan.Answer{}, nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return plan.Answer{}, err
	}
	return plan.Acts(plan.Action{Verb: plan.Write, Target: name, Reason: strings.Join(why, "; "),
		Do: func(context.Context, plan.Progress) error {
			return h.Files.WriteFile(name, []byte(kept), attr)
		}}), nil
}

// withoutOwnLines is the text of a hosts(5) without the machine's own lines, and
// what they were.
func withoutOwnLines(text string) (left string, why []string) {
	var kept strings.Builder
	drop := func(reason string) {
		if !slices.Contains(why, reason) {
			why = append(why, reason)
		}
	}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) > 1 && f[0] == "127.0.1.1":
			drop("127.0.1.1 has this machine's name")
		case strings.HasSuffix(strings.TrimSpace(line), templates.HostsMark):
			drop("first boot wrote where the old cluster's control plane is")
		default:
			kept.WriteString(line)
		}
	}
	return kept.String(), why
}

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
