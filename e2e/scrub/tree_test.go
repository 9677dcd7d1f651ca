//go:build e2e

package scrub_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

// lay builds an image from a map of paths: "-> x" is a link, a name that ends
// in "/" a folder, everything else a file with that content.
func lay(t *testing.T, root string, files map[string]string) {
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

// noted describes everything below a folder: path → mode, owner, extended
// attributes, and content or link target.
func noted(t *testing.T, folder string) map[string]string {
	t.Helper()
	got := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(p, &st))
		note := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid)
		label := make([]byte, 256)
		if n, err := unix.Lgetxattr(p, "user.label", label); err == nil {
			note += " [" + string(label[:n]) + "]"
		}
		switch {
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			require.NoError(t, err)
			note += " -> " + target
		case d.Type().IsRegular():
			text, err := os.ReadFile(p)
			require.NoError(t, err)
			note += " " + string(text)
		}
		got[strings.TrimPrefix(p, folder)] = note
		return nil
	}))
	return got
}

// diff lists what changed: "- path" gone, "~ path" another note, "+ path" new.
func diff(before, after map[string]string) []string {
	var d []string
	for name, note := range before {
		now, there := after[name]
		switch {
		case !there:
			d = append(d, "- "+name)
		case now != note:
			d = append(d, "~ "+name)
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			d = append(d, "+ "+name)
		}
	}
	sort.Strings(d)
	return d
}

// dirty is a machine that joined a cluster by bootstrap.sh and was used: at
// least one file for each kind of change that a scrub makes.
func dirty(t *testing.T) map[string]string {
	t.Helper()
	content := map[string]string{}
	for _, template := range templates.All() {
		content[template.Path] = string(template.Content)
	}
	fill := strings.NewReplacer("MASTER_ENDPOINT", "https://a.gr7.us-east-1.eks.amazonaws.com", "CLUSTER_NAME", "old", "AWS_REGION", "us-east-1",
		"SANDBOX_IMAGE", "602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/pause:3.10")
	// The manifest knows the kubeconfig and the containerd template; the
	// kubelet's configuration was edited by a user.
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
