//go:build linux

package scrub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// audit returns the findings of rules as "path: reason".
func audit(t *testing.T, h *host.Host, only ...string) []string {
	t.Helper()
	var got []string
	for _, p := range planned(t, h, Spec{Only: only}, ToAudit) {
		require.Empty(t, p.Error)
		for _, a := range p.Actions {
			got = append(got, a.Target+": "+a.Reason)
		}
		for _, f := range p.Findings {
			got = append(got, f.Target+": "+f.Reason)
		}
	}
	return got
}

func TestDifferencesFromTheManifestAreFound(t *testing.T) {
	file := func(path, content string) manifest.File {
		return manifest.File{Path: path, Mode: 0o755, Size: int64(len(content)), SHA256: manifest.Sum([]byte(content))}
	}
	m := manifest.Manifest{
		KubernetesVersion: "1.34.4",
		Assets:            []manifest.Asset{{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{file("/usr/bin/kubelet", "kubelet")}}},
		Files: []manifest.File{
			file("/etc/same", "same"), file("/etc/other", "other"), file("/etc/longer", "x"), file("/etc/gone", "x"),
			{Path: "/usr/bin/nodeadm", Link: "eksnode"},
		},
		Packages: []manifest.Package{{Name: "runc", Version: "1.1"}, {Name: "socat"}},
	}
	text, err := m.Encode()
	require.NoError(t, err)
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, manifest.Path[1:]: string(text), "usr/bin/kubelet": "kubelet",
		"etc/same": "same", "etc/other": "OTHER", "etc/longer": "xx", "usr/bin/nodeadm": "-> /elsewhere",
	})
	assert.ElementsMatch(t, []string{
		"/etc/other: content differs from the installed file: provision again",
		"/etc/longer: has 2 bytes; the installed file had 1: provision again",
		"/etc/gone: missing: provision again",
		"/usr/bin/nodeadm: points to /elsewhere, not to eksnode: provision again",
		"socat: the manifest records no version of this package: provision again",
	}, audit(t, h, "can-join"))

	m.KubernetesVersion, m.Files, m.Packages = "1.33.0", nil, nil
	text, err = m.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, manifest.Path), text, 0o644))
	assert.Equal(t, []string{"kubelet: version 1.34.4, but the image is for Kubernetes 1.33.0"}, audit(t, h, "can-join"))
}

// The first kernel has the modules of Rocky Linux 10's image (log in kops #18724).
// The newer kernel also has those of kernel-modules-extra.
func TestMissingKernelModulesAreFound(t *testing.T) {
	const core = "kernel/drivers/net/veth.ko.xz:\nkernel/net/netfilter/nf_conntrack.ko.xz: kernel/lib/libcrc32c.ko.xz\nkernel/net/netfilter/nf_nat.ko.xz: kernel/net/netfilter/nf_conntrack.ko.xz\n"
	extra := core
	for _, m := range []string{"br_netfilter", "nft_compat", "xt_MASQUERADE", "xt_addrtype", "xt_comment", "xt_connmark", "xt_conntrack", "xt-mark", "xt_nat", "xt_statistic", "xt_tcpudp"} {
		extra += "kernel/net/netfilter/" + m + ".ko.xz:\n"
	}
	image := map[string]string{
		"etc/passwd": passwd, "etc/eks/": "", "lib": "-> /usr/lib", "usr/lib/modules/README": "",
		"usr/lib/modules/6.12.0-99.8.1.el10_1.x86_64/modules.dep":     core,
		"usr/lib/modules/6.12.0-99.8.1.el10_1.x86_64/modules.builtin": "kernel/fs/overlayfs/overlay.ko\n",
	}
	h, _ := tree(t, image)
	assert.Equal(t, []string{"/lib/modules/6.12.0-99.8.1.el10_1.x86_64: this kernel lacks the modules br_netfilter, nft_compat, xt_MASQUERADE, xt_addrtype, xt_comment, xt_connmark, xt_conntrack, xt_mark, xt_nat, xt_statistic, xt_tcpudp: install the package that contains them, such as kernel-modules-extra; without them pods have no network"},
		audit(t, h, "kernel-modules"))

	image["usr/lib/modules/6.12.0-211.26.1.el10_2.x86_64/modules.dep"] = extra
	image["usr/lib/modules/6.12.0-211.26.1.el10_2.x86_64/modules.builtin"] = "kernel/fs/overlayfs/overlay.ko\n"
	image["usr/lib/modules/6.12.0-300.el10_2.x86_64/extra/left.ko"] = "" // of a kernel that was removed
	h, _ = tree(t, image)
	assert.Empty(t, audit(t, h, "kernel-modules"))

	image["boot/grub2/grubenv"] = "# GRUB Environment Block\nsaved_entry=0123456789abcdef0123456789abcdef-6.12.0-99.8.1.el10_1.x86_64\n####"
	h, _ = tree(t, image)
	got := audit(t, h, "kernel-modules")
	require.Len(t, got, 1, "the boot loader starts the older kernel")
	assert.Contains(t, got[0], "/lib/modules/6.12.0-99.8.1.el10_1.x86_64: ")
	image["boot/grub2/grubenv"] = "saved_entry=0\n"
	h, _ = tree(t, image)
	assert.Empty(t, audit(t, h, "kernel-modules"))

	delete(image, "usr/lib/modules/6.12.0-211.26.1.el10_2.x86_64/modules.builtin")
	h, _ = tree(t, image)
	assert.Len(t, audit(t, h, "kernel-modules"), 1, "the older kernel's modules are not the newer one's")

	delete(image, "etc/eks/")
	h, _ = tree(t, image)
	assert.Empty(t, audit(t, h, "kernel-modules"), "a machine that is no node")
	h, _ = tree(t, map[string]string{"etc/passwd": passwd, "etc/eks/": ""})
	assert.Empty(t, audit(t, h, "kernel-modules"), "a container has its host's kernel")
}

func TestHarmfulKernelSettingsAreFound(t *testing.T) {
	image := map[string]string{
		"etc/passwd": passwd, "etc/eks/": "",
		"etc/sysctl.d/99-node.conf":  "kernel.panic = 10\nkernel.panic_on_oops=1\nvm.overcommit_memory = 1\nnet.ipv4.ip_forward = 1\n",
		"etc/sysctl.d/60-cis.conf":   "net.ipv4.ip_forward = 0\nkernel.panic = 60\n",
		"usr/lib/sysctl.d/50-x.conf": "net.ipv4.conf.all.forwarding = 0\n",
		"etc/sysctl.d/99-zzz.txt":    "net.ipv4.ip_forward = 0\n", "etc/sysctl.d/folder.conf/": "",
	}
	h, _ := tree(t, image)
	assert.Empty(t, audit(t, h, "kernel-settings", "ip-forward"), "later files override earlier ones")

	image["etc/sysctl.conf"] = "# hardened\n; so\nnet/ipv4/ip_forward=0\n-vm.overcommit_memory =2\n"
	image["etc/sysctl.d/99-sysctl.conf"] = "-> ../sysctl.conf"
	h, _ = tree(t, image)
	forward := `/etc/sysctl.d/99-sysctl.conf: line 3 sets net.ipv4.ip_forward = "0", and no later file changes it: ` +
		"pods have no network. Set net.ipv4.ip_forward = 1 in a file of /etc/sysctl.d that sorts last " +
		"(CIS 3.3.1, CIS 3.2.1 for AL2023, V-257970)"
	assert.Equal(t, []string{forward}, audit(t, h, "ip-forward"))
	assert.Equal(t, []string{
		`/etc/sysctl.d/99-sysctl.conf: line 4 sets vm.overcommit_memory = "2", and no later file changes it: ` +
			`a kubelet with protectKernelDefaults exits with "invalid kernel flag". ` +
			"Remove the line, or set the kubelet's value in a file of /etc/sysctl.d that sorts last",
		forward,
	}, audit(t, h, "kernel-settings"), "the name of the cause selects all settings that have it")

	delete(image, "etc/sysctl.d/99-sysctl.conf")
	image["usr/lib/sysctl.d/99-other.conf"] = "net.ipv4.conf.all.forwarding = 0\n"
	h, _ = tree(t, image)
	require.Len(t, audit(t, h, "ip-forward"), 1, "the same setting by its other name")
	assert.Contains(t, audit(t, h, "ip-forward")[0], "/usr/lib/sysctl.d/99-other.conf: line 1 sets net.ipv4.conf.all.forwarding")
	image["etc/sysctl.d/99-other.conf"] = "-> /dev/null"
	image["dev/null"] = ""
	h, _ = tree(t, image)
	assert.Empty(t, audit(t, h, "ip-forward"), "a file of the same name in /etc replaces the one in /usr/lib")
}

// A secret in a file that another rule removes is reported by that rule alone. If
// that rule is skipped, the secret is a finding.
func TestSecretsInRemovedFilesAreReportedOnce(t *testing.T) {
	key := "AK" + "IA" + strings.ToUpper(fill(16))
	h, _ := tree(t, map[string]string{
		"etc/passwd": passwd, "root/.bash_history": "export KEY=" + key, "root/.aws/credentials": key, "root/notes": key,
		"root/link":                  "-> /root/notes",
		"etc/hosts":                  "127.0.0.1 localhost\n127.0.1.1 ip-10-0-0-9.eu-west-1.compute.internal\n# https://ci:" + fill(9) + "@git.corp/\n",
		"var/lib/kubelet/kubeconfig": "server: https://" + strings.Repeat("0A", 16) + ".gr7.eu-west-1.eks.amazonaws.com\n",
	})
	found := func(skip ...string) (targets []string) {
		for range 2 { // a second plan has the same result
			targets = nil
			for _, p := range planned(t, h, Spec{Skip: append(skip, "can-join", "not-a-node")}, ToAudit) {
				require.Empty(t, p.Error)
				for _, a := range p.Actions {
					targets = append(targets, fmt.Sprintf("%s %s (%s)", a.Verb, a.Target, p.Item))
				}
				for _, f := range p.Findings {
					targets = append(targets, fmt.Sprintf("finding %s (%s)", f.Target, p.Item))
				}
			}
		}
		return targets
	}
	assert.ElementsMatch(t, []string{
		"remove /root/.bash_history (histories)", "remove /root/.aws (credentials)", "finding /root/notes (secrets-left)",
		"remove /var/lib/kubelet/kubeconfig (kubelet-kubeconfig)",
		"write /etc/hosts (hosts)", "finding /etc/hosts (secrets-left)", // the line with the secret stays
	}, found())
	assert.ElementsMatch(t, []string{
		"remove /root/.bash_history (histories)", "finding /root/.aws/credentials (secrets-left)", "finding /root/notes (secrets-left)",
		"finding /var/lib/kubelet/kubeconfig (host-ids-left)",
		"write /etc/hosts (hosts)", "finding /etc/hosts (secrets-left)",
	}, found("credentials", "kubelet-kubeconfig"))
}
