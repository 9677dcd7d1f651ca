// Package render returns the files that the kubelet, containerd and systemd read, for
// a node. Equal nodes result in the same bytes in the same order. Earlier results are
// never read.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/kubelet"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
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

// Files returns all files of a node, in the order in which the services read them.
func Files(n *node.Node) ([]File, error) {
	var files []File
	for _, noun := range []func(*node.Node) ([]File, error){
		environmentFiles, resolvedFiles, containerdFiles, sociFiles, credentialProviderFiles, clusterFiles, kubeletFiles,
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
