//go:build e2e

package scrub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// write builds an image root from a map of paths: "-> x" is a link, a name that
// ends in "/" a folder, everything else a file with that content.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(p, 0o755))
		} else if target, ok := strings.CutPrefix(content, "-> "); ok {
			require.NoError(t, os.Symlink(target, p))
		} else {
			require.NoError(t, os.WriteFile(p, []byte(content), 0o640))
		}
	}
}

// noted describes everything below a folder.
func noted(t *testing.T, folder string) lab.Tree {
	t.Helper()
	tree := lab.Tree{}
	tree.Note(t, folder, "", func(string) bool { return false }, func(_, path string) string { return lab.Content(t, path) })
	return tree
}

// dirty is a machine that joined a cluster by bootstrap.sh and was used. It has
// at least one file for each kind of change that a scrub makes.
func dirty(t *testing.T) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, template := range templates.All() {
		content[template.Path] = string(template.Content)
	}
	fill := strings.NewReplacer("MASTER_ENDPOINT", "https://a.gr7.us-east-1.eks.amazonaws.com", "CLUSTER_NAME", "old", "AWS_REGION", "us-east-1",
		"SANDBOX_IMAGE", "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/pause:3.10")
	// The manifest lists the kubeconfig and the containerd template; a user edited
	// the kubelet's configuration.
	m := manifest.Manifest{}
	for _, path := range []string{templates.Kubeconfig, templates.ContainerdConfig, templates.KubeletConfig} {
		m.Templates = append(m.Templates, manifest.Template{Path: path, Mode: 0o600, Content: content[path], SHA256: manifest.Sum([]byte(content[path]))})
	}
	recorded, err := m.Encode()
	require.NoError(t, err)
	files := map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\nadmin:x:1000:1000::/home/admin:/bin/bash\n", "etc/passwd-": "old", "etc/systemd/": "",
		manifest.Path[1:]:                                                 string(recorded),
		templates.Kubeconfig[1:]:                                          fill.Replace(content[templates.Kubeconfig]),
		templates.ContainerdConfig[1:]:                                    fill.Replace(content[templates.ContainerdConfig]) + "# mine\n",
		templates.KubeletConfig[1:]:                                       `{"kind":"KubeletConfiguration","maxPods":17,"registryPullQPS":7}`,
		"etc/containerd/config.toml":                                      fill.Replace(content[templates.ContainerdConfig]),
		"etc/systemd/system/kubelet.service.d/10-kubelet-args.conf":       "[Service]",
		"etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf": "[Service]",
		"etc/systemd/system/multi-user.target.wants/kubelet.service":      "-> /usr/lib/systemd/system/kubelet.service",
		"etc/kubernetes/pki/ca.crt":                                       "CA",
		"etc/cni/net.d/10-aws.conflist":                                   "{}",
		"etc/machine-id":                                                  "0123456789abcdef0123456789abcdef\n",
		"etc/hostname":                                                    "old\n",
		"etc/hosts":                                                       "127.0.0.1 localhost\n127.0.1.1 old\n",
		"etc/fstab":                                                       "/dev/vda1 / ext4 defaults 0 1\n/swapfile none swap sw 0 0\n",
		"swapfile":                                                        "memory",
		"etc/ssh/ssh_host_ed25519_key":                                    "KEY",
		"usr/lib/systemd/system/cloud-init.service":                       "[Unit]",
		"var/lib/cloud/instance":                                          "-> instances/i-1",
		"var/lib/cloud/instances/i-1/user-data.txt":                       "secret",
		"var/lib/cni/networks/net/10.0.0.1":                               "pod",
		"var/lib/kubelet/cpu_manager_state":                               "{}",
		"var/lib/kubelet/pki/kubelet-client-2023-04-19.pem":               "KEY",
		"var/lib/kubelet/pki/kubelet-client-current.pem":                  "-> kubelet-client-2023-04-19.pem",
		"var/lib/kubelet/seccomp/profile.json":                            "kept",
		"var/log/messages":                                                "log",
		"var/log/messages-20230419":                                       "log",
		"var/log/journal/abc/system.journal":                              "log",
		"var/log/wtmp":                                                    "log",
		"tmp/packer-script":                                               "x",
		"root/.bash_history":                                              "aws configure",
		"root/.ssh/authorized_keys":                                       "ssh-ed25519 builder",
		"home/admin/.ssh/authorized_keys":                                 "ssh-ed25519 packer",
		"usr/bin/kubelet":                                                 "kept",
	}
	for n := range 6 {
		files[fmt.Sprintf("var/lib/kubelet/pods/uid%d/volumes/new\nline/%d", n%2, n)] = "SECRET"
	}
	return files
}
