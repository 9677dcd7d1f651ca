// Package templates contains the files that bootstrap.sh edits in place at first
// boot, in their state before any boot. Provisioning writes them, and the scrub
// restores them on images without a manifest.
package templates

import "embed"

// Template is one file with placeholders.
type Template struct {
	// Path is the file's path on a machine.
	Path string
	// Use says what bootstrap.sh does with the file.
	Use string
	// Content is the file before any first boot.
	Content []byte
}

//go:embed files
var files embed.FS

// The paths of the templates, as Amazon Linux 2's bootstrap.sh names them.
const (
	Kubeconfig       = "/var/lib/kubelet/kubeconfig"
	KubeletConfig    = "/etc/kubernetes/kubelet/kubelet-config.json"
	ContainerdConfig = "/etc/eks/containerd/containerd-config.toml"
)

// All are the templates of the bootstrap.sh contract. Source: amazon-eks-ami,
// Amazon Linux 2, before March 2026.
func All() []Template {
	list := []Template{
		{Path: Kubeconfig, Use: "bootstrap.sh fills in MASTER_ENDPOINT, CLUSTER_NAME and AWS_REGION"},
		{Path: KubeletConfig, Use: "bootstrap.sh adds settings of the cluster"},
		{Path: ContainerdConfig, Use: "bootstrap.sh fills in SANDBOX_IMAGE"},
	}
	for i, name := range []string{"kubeconfig", "kubelet-config.json", "containerd-config.toml"} {
		content, err := files.ReadFile("files/" + name)
		if err != nil {
			panic(err) // the file is part of this program
		}
		list[i].Content = content
	}
	return list
}

// The marks of `eksnode init` in files with comments. By the marks, init and the
// scrub distinguish init's lines from a user's.
const (
	// InitMark is the whole first line of a file that init wrote.
	InitMark = "# Written by eksnode init from this node's user data."
	// HostsMark ends each line that init added to /etc/hosts.
	HostsMark = "# eksnode init"
)
