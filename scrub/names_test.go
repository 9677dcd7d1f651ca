//go:build linux

package scrub

import (
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
)

// Files that rules write or remove, and other facts about them.
const (
	containerMark  = "types.containerd.io/opencontainers/runtime-spec"
	containerdMeta = containerd.MetadataPath
	neutralID      = "ffffffffffffffffffffffffffffffff"
	recordPath     = "/etc/eks/eksnode/scrubbed.json"
	sshdCloudInit  = "/etc/ssh/sshd_config.d/50-cloud-init.conf"
	changedMost    = 20
	hostKeyMakers  = "cloud-init.service, cloud-init-network.service, sshdgenkeys.service, sshd-keygen.target, " +
		"sshd-keygen.service, sshd-keygen@.service, ssh-keygen.service, coreos-sshkeys.service"
)

// fill is a secret's random part.
func fill(n int) string { return strings.Repeat("Zx7Q", n/4+1)[:n] }

func pemKey(kind string) string {
	const dashes = "-----"
	return dashes + "BEGIN " + kind + dashes + "\n" + fill(64) + "\n" + fill(64) + "\n" + dashes + "END " + kind + dashes + "\n"
}
