package render

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
)

// kubeletFlags returns the generated arguments by name. Their order is alphabetical;
// upstream's order is random.
func kubeletFlags(n *node.Node) map[string]string {
	v := n.Machine.Kubelet
	flags := map[string]string{
		"config":          KubeletConfigOf(n),
		"kubeconfig":      Kubeconfig,
		"runtime-cgroups": "/runtime.slice/containerd.service",
	}
	if n.Machine.CredentialProvider {
		flags["image-credential-provider-bin-dir"] = machine.CredentialProviderFolder
		flags["image-credential-provider-config"] = CredentialProvider
	}
	if v.Less(1, 27) {
		flags["container-runtime"] = "remote"
	}
	if v.Less(1, 27) || n.Form == node.BootstrapScript {
		flags["container-runtime-endpoint"] = containerdSocket
	}
	if !v.Less(1, 35) && n.Machine.NVIDIA {
		// NVIDIA's operator and device plugin find nodes by this label, which NVIDIA's
		// own discovery sets later (amazon-eks-ami #2607).
		flags["node-labels"] = "nvidia.com/gpu.present=true"
	}
	if n.Form == node.BootstrapScript {
		return flags
	}
	flags["node-ip"], flags["cloud-provider"] = n.Instance.Address, cloudProvider(n)
	if n.Name != "" {
		flags["hostname-override"] = n.Name
	}
	if hasDropIn(n) {
		flags["config-dir"] = KubeletDropInFolder
	}
	if n.Cluster.Outpost {
		flags["bootstrap-kubeconfig"] = BootstrapKubeconfig
	}
	if v.Less(1, 29) {
		// From 1.29 on, containerd itself keeps the pause image.
		flags["pod-infra-container-image"] = n.Containerd.PauseImage
	}
	return flags
}

func cloudProvider(n *node.Node) string {
	if n.Machine.Kubelet.Less(1, 26) {
		return "aws"
	}
	return "external"
}

// kubeletEnvironment returns the environment file of kubelet.service. systemd splits
// the arguments like a shell, so quotes in a user's flags work.
func kubeletEnvironment(n *node.Node) []byte {
	var args []string
	flags := kubeletFlags(n)
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		args = append(args, fmt.Sprintf("--%s=%s", name, flags[name]))
	}
	if n.Form != node.BootstrapScript {
		for _, f := range n.Kubelet.Flags {
			args = append(args, strings.TrimSpace(f))
		}
	}
	text := ""
	if hasDropIn(n) && n.Machine.Kubelet.Less(1, 30) {
		text = "KUBELET_CONFIG_DROPIN_DIR_ALPHA=on\n"
	}
	return []byte(text + "NODEADM_KUBELET_ARGS=" + strings.Join(args, " ") + "\n")
}

// scriptFiles returns the drop-ins of kubelet.service with the variables that Amazon
// Linux 2's bootstrap.sh sets, with the flags in the script's order.
func scriptFiles(n *node.Node) []File {
	if n.Form != node.BootstrapScript {
		return nil
	}
	args := []string{"--node-ip=" + n.Instance.Address}
	if n.Machine.Kubelet.Less(1, 35) { // Kubernetes 1.35 removed the flag
		args = append(args, "--pod-infra-container-image="+n.Containerd.PauseImage)
	}
	args = append(args, "--v=2")
	if n.Name != "" {
		args = append(args, "--hostname-override="+n.Name)
	}
	args = append(args, "--cloud-provider="+cloudProvider(n))
	of := []Service{Systemd, Kubelet}
	files := []File{{
		Path: ScriptArguments, Mode: 0o644, Why: "the kubelet's arguments", Of: of,
		Content: scriptDropIn("KUBELET_ARGS", strings.Join(args, " ")),
	}}
	extra := slices.Clone(n.Kubelet.Flags)
	if n.Cluster.Outpost {
		extra = slices.Insert(extra, 0, "--bootstrap-kubeconfig "+BootstrapKubeconfig)
	}
	if len(extra) > 0 {
		files = append(files, File{
			Path: ScriptExtraArguments, Mode: 0o644, Why: "the user's arguments for the kubelet", Of: of,
			Content: scriptDropIn("KUBELET_EXTRA_ARGS", strings.Join(extra, " ")),
		})
	}
	return files
}

func scriptDropIn(variable, value string) []byte {
	return fmt.Appendf(nil, "%s\n[Service]\nEnvironment='%s=%s'\n", Mark, variable, scriptValue(value))
}

// isLetter reports whether systemd may treat the character after a percent sign as a
// specifier (systemd.unit(5)).
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

// scriptValue returns a value for a setting in single quotes. Backslashes stay, as in
// the file that Amazon Linux 2's script writes. A percent sign before a letter is
// doubled.
func scriptValue(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '\\' && i+1 < len(value):
			b.WriteString(value[i : i+2])
			i++
		case c == '\'':
			b.WriteString(`\'`)
		case c == '%' && i+1 < len(value) && value[i+1] == '%':
			b.WriteString("%%")
			i++
		case c == '%' && i+1 < len(value) && isLetter(value[i+1]):
			b.WriteString("%%")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
