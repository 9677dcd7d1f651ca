package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// kubeletFlags are the generated arguments by name. Upstream's order changes
// from run to run; here it is alphabetical.
func kubeletFlags(n *node.Node) map[string]string {
	v := n.Machine.Kubelet
	flags := map[string]string{
		"config":          KubeletConfig,
		"kubeconfig":      Kubeconfig,
		"node-ip":         n.Instance.Address,
		"runtime-cgroups": "/runtime.slice/containerd.service",
		"cloud-provider":  "external",
	}
	if v.Less(1, 26) {
		flags["cloud-provider"] = "aws"
	}
	if n.Name != "" {
		flags["hostname-override"] = n.Name
	}
	if hasDropIn(n) {
		flags["config-dir"] = KubeletDropInFolder
	}
	if n.Cluster.Outpost {
		flags["bootstrap-kubeconfig"] = BootstrapKubeconfig
	}
	if n.Machine.CredentialProvider {
		flags["image-credential-provider-bin-dir"] = machine.CredentialProviderFolder
		flags["image-credential-provider-config"] = CredentialProvider
	}
	if v.Less(1, 27) {
		flags["container-runtime"] = "remote"
		flags["container-runtime-endpoint"] = containerdSocket
	}
	if v.Less(1, 29) {
		// Newer kubelets leave it to containerd to keep the pause image.
		flags["pod-infra-container-image"] = n.Containerd.PauseImage
	}
	if !v.Less(1, 35) && n.Machine.NVIDIA {
		// NVIDIA's own name for it, so that its operator and device plugin find
		// the node before they have labelled it (amazon-eks-ami #2607).
		flags["node-labels"] = "nvidia.com/gpu.present=true"
	}
	return flags
}

// kubeletEnvironment is the environment file of kubelet.service. systemd splits
// the arguments as a shell would, so that a user's quotes work.
func kubeletEnvironment(n *node.Node) []byte {
	var args []string
	flags := kubeletFlags(n)
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, fmt.Sprintf("--%s=%s", name, flags[name]))
	}
	for _, f := range n.Kubelet.Flags {
		args = append(args, strings.TrimSpace(f))
	}
	text := ""
	if hasDropIn(n) && n.Machine.Kubelet.Less(1, 30) {
		text = "KUBELET_CONFIG_DROPIN_DIR_ALPHA=on\n"
	}
	return []byte(text + "NODEADM_KUBELET_ARGS=" + strings.Join(args, " ") + "\n")
}
