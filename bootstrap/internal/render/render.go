// Package render writes a node's description as the files that the kubelet,
// containerd and systemd read. The same description makes the same bytes, in
// the same order; nothing is read back from an earlier result.
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// The paths that are written.
const (
	KubeletConfig       = "/etc/kubernetes/kubelet/config.json"
	KubeletDropInFolder = "/etc/kubernetes/kubelet/config.json.d"
	KubeletDropIn       = KubeletDropInFolder + "/40-nodeadm.conf"
	KubeletEnvironment  = "/etc/eks/kubelet/environment"
	// ScriptKubeletConfig, ScriptArguments and ScriptExtraArguments are where
	// Amazon Linux 2's bootstrap.sh writes, and where users edit.
	ScriptKubeletConfig  = templates.KubeletConfig
	ScriptArguments      = "/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf"
	ScriptExtraArguments = "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"
	Kubeconfig           = "/var/lib/kubelet/kubeconfig"
	BootstrapKubeconfig  = "/var/lib/kubelet/bootstrap-kubeconfig"
	ClusterCA            = "/etc/kubernetes/pki/ca.crt"
	CredentialProvider   = "/etc/eks/image-credential-provider/config.json"
	ContainerdConfig     = "/etc/containerd/config.toml"
	BaseRuntimeSpec      = "/etc/containerd/base-runtime-spec.json"
	SOCIConfig           = "/etc/soci-snapshotter-grpc/config.toml"
	SystemEnvironment    = "/etc/systemd/system.conf.d/environment.conf"
	ResolvedConfig       = "/run/systemd/resolved.conf.d/40-eks.conf"
)

// ServiceEnvironment is the drop-in of a service's environment.
func ServiceEnvironment(service string) string {
	return "/etc/systemd/system/" + service + ".service.d/environment.conf"
}

// Mark is in the first line of the files whose form has comments. It tells a
// file that this program wrote, and may remove, from a user's.
const Mark = templates.InitMark

// Service is who reads a file, and has to start again when it changes.
type Service string

// The services.
const (
	Kubelet    Service = "kubelet"
	Containerd Service = "containerd"
	Resolved   Service = "systemd-resolved"
	SOCI       Service = "soci-snapshotter"
	// Systemd reads units and its own configuration again; nothing restarts
	// for it alone.
	Systemd Service = "systemd"
)

// File is one file. Root owns it.
type File struct {
	Path    string
	Mode    fs.FileMode
	Content []byte
	// Why says what it is for.
	Why string
	// Of are the services that read it.
	Of []Service
}

// Files are all files of a node, in the order of their paths' meaning: what is
// read first comes first.
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

// KubeletConfigOf is the path of the file that the kubelet reads.
func KubeletConfigOf(n *node.Node) string {
	if n.Form == node.BootstrapScript {
		return ScriptKubeletConfig
	}
	return KubeletConfig
}

// Possible are the paths that some description writes and that only this
// program writes: those a description does not write are an earlier cluster's
// and go. The drop-ins of environments are found by their mark.
func Possible() []string {
	return []string{
		KubeletConfig, KubeletDropIn, KubeletEnvironment, BootstrapKubeconfig, ClusterCA,
		BaseRuntimeSpec, ContainerdConfig, ResolvedConfig,
	}
}

// encode writes JSON as upstream does: sorted, with four spaces, and without a
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

// IsOurs says whether a file begins with the mark of this program.
func IsOurs(h *host.Host, name string) (bool, error) {
	content, err := h.Content(name)
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return strings.HasPrefix(string(content), Mark+"\n"), nil
}
