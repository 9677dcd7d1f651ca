// Package render returns the files that the kubelet, containerd and systemd read, for
// a node. Equal nodes result in the same bytes in the same order. Earlier results are
// never read.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// The paths of the rendered files.
const (
	KubeletConfig       = "/etc/kubernetes/kubelet/config.json"
	KubeletDropInFolder = "/etc/kubernetes/kubelet/config.json.d"
	KubeletDropIn       = KubeletDropInFolder + "/40-nodeadm.conf"
	KubeletEnvironment  = "/etc/eks/kubelet/environment"
	// ScriptKubeletConfig, ScriptArguments and ScriptExtraArguments are the files
	// that Amazon Linux 2's bootstrap.sh writes and that users edit.
	ScriptKubeletConfig  = templates.KubeletConfig
	ScriptArguments      = "/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf"
	ScriptExtraArguments = "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"
	Kubeconfig           = "/var/lib/kubelet/kubeconfig"
	BootstrapKubeconfig  = "/var/lib/kubelet/bootstrap-kubeconfig"
	ClusterCA            = kubelet.ClusterCA
	CredentialProvider   = "/etc/eks/image-credential-provider/config.json"
	ContainerdConfig     = "/etc/containerd/config.toml"
	BaseRuntimeSpec      = "/etc/containerd/base-runtime-spec.json"
	SOCIConfig           = "/etc/soci-snapshotter-grpc/config.toml"
	SOCIOrder            = "/etc/systemd/system/containerd.service.d/10-soci-snapshotter.conf"
	SystemEnvironment    = "/etc/systemd/system.conf.d/environment.conf"
	ResolvedConfig       = "/run/systemd/resolved.conf.d/40-eks.conf"
)

// ServiceEnvironment returns the path of the drop-in with a service's environment.
func ServiceEnvironment(service string) string {
	return "/etc/systemd/system/" + service + ".service.d/environment.conf"
}

// Mark is in the first line of rendered files whose format has comments. It
// distinguishes files that eksnode may remove from a user's files.
const Mark = templates.InitMark

// Service is a service that reads a file and must restart when the file changes.
type Service string

// The services.
const (
	Kubelet    Service = "kubelet"
	Containerd Service = "containerd"
	Resolved   Service = "systemd-resolved"
	SOCI       Service = "soci-snapshotter"
	// Systemd is systemd itself, which reloads units and its own configuration
	// without a restart of services.
	Systemd Service = "systemd"
)

// secretMode is the mode of files that can contain a user's secrets: registry
// passwords, proxies with a password, headers. Only root reads them.
const secretMode fs.FileMode = 0o600

// File is a rendered file. Its owner is root.
type File struct {
	Path    string
	Mode    fs.FileMode
	Content []byte
	// Why is the file's purpose.
	Why string
	// Of lists the services that read the file.
	Of []Service
}

// file is a file that everyone may read.
func file(path string, content []byte, why string, of ...Service) File {
	return File{path, 0o644, content, why, of}
}

// secret is a file that can contain a user's secrets.
func secret(path string, content []byte, why string, of ...Service) File {
	return File{path, secretMode, content, why, of}
}

// Files returns all files of a node, in the order in which the services read them.
func Files(n *node.Node) ([]File, error) {
	var files []File
	for _, noun := range []func(*node.Node) ([]File, error){
		environmentFiles, resolvedFiles, containerdFiles, sociFiles, credentialProviderFiles, clusterFiles,
		kubeletFiles,
	} {
		more, err := noun(n)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// KubeletConfigOf returns the path of the kubelet's configuration.
func KubeletConfigOf(n *node.Node) string {
	if n.Form == node.BootstrapScript {
		return ScriptKubeletConfig
	}
	return KubeletConfig
}

// Possible returns all paths that only eksnode writes, for any node. Files at these
// paths that a node does not have belong to an earlier configuration and are removed.
// The drop-ins with environments are not in this list; Mark identifies them.
func Possible() []string {
	return []string{
		KubeletConfig, KubeletDropIn, KubeletEnvironment, BootstrapKubeconfig, ClusterCA,
		BaseRuntimeSpec, ContainerdConfig, ResolvedConfig,
	}
}

// encode returns JSON in upstream's form: sorted, indented by four spaces, without a
// newline at the end.
func encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("encoding JSON: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// IsOurs reports whether a file begins with Mark.
func IsOurs(h *host.Host, name string) (bool, error) {
	content, err := h.Content(name)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return strings.HasPrefix(string(content), Mark+"\n"), nil
}

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
	if hasDropIn(n) {
		flags["config-dir"] = KubeletDropInFolder
	}
	if n.Form == node.BootstrapScript {
		return flags
	}
	flags["node-ip"], flags["cloud-provider"] = n.Instance.Address, cloudProvider(n)
	if n.Name != "" {
		flags["hostname-override"] = n.Name
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
	dropIn := func(path, variable string, args []string, why string) File {
		return file(path, scriptDropIn(variable, strings.Join(args, " ")), why, Systemd, Kubelet)
	}
	files := []File{dropIn(ScriptArguments, "KUBELET_ARGS", args, "the kubelet's arguments")}
	extra := slices.Clone(n.Kubelet.Flags)
	if n.Cluster.Outpost {
		extra = slices.Insert(extra, 0, "--bootstrap-kubeconfig "+BootstrapKubeconfig)
	}
	if len(extra) > 0 {
		why := "the user's arguments for the kubelet"
		files = append(files, dropIn(ScriptExtraArguments, "KUBELET_EXTRA_ARGS", extra, why))
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

// environmentFiles returns systemd's drop-ins with environment variables. A unit's
// own variables override the variables for all services.
func environmentFiles(n *node.Node) ([]File, error) {
	var files []File
	for _, service := range slices.Sorted(maps.Keys(n.Environment)) {
		variables := n.Environment[service]
		if len(variables) == 0 {
			continue
		}
		content := []byte(Mark + "\n" + nodeconfig.SystemdEnvironment(service, variables))
		f := secret(ServiceEnvironment(service), content, "the environment of "+service, Systemd, Service(service))
		if service == nodeconfig.DefaultEnvironment {
			f = secret(SystemEnvironment, content, "the environment of every service", Systemd, Kubelet, Containerd)
		}
		files = append(files, f)
	}
	return files, nil
}

// resolvedFiles returns systemd-resolved's drop-in with the user's DNS servers. The
// file is in /run, so a reboot removes it.
func resolvedFiles(n *node.Node) ([]File, error) {
	if len(n.Network.Nameservers)+len(n.Network.Domains) == 0 {
		return nil, nil
	}
	text := "[Resolve]\n"
	if len(n.Network.Nameservers) > 0 {
		text += "DNS=" + strings.Join(n.Network.Nameservers, " ") + "\n"
	}
	if len(n.Network.Domains) > 0 {
		text += "Domains=" + strings.Join(n.Network.Domains, " ") + "\n"
	}
	return []File{file(ResolvedConfig, []byte(text), "the DNS servers of systemd-resolved", Resolved)}, nil
}
