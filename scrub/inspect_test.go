//go:build linux

package scrub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// audit returns the findings of rules as "path: reason".
func audit(t *testing.T, h *host.Host, only ...string) []string {
	t.Helper()
	items := selected(t, Spec{Only: only}, ToAudit)
	var got []string
	for _, p := range plan.Make(t.Context(), h, items) {
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

func TestSecretsAreFoundAndNeverShown(t *testing.T) {
	const secret = "s3cr3tS3CR3T"
	key := "AKIA" + "ABCDEFGHIJKLMNOP"
	h, _ := tree(t, map[string]string{
		"etc/passwd":                 passwd,
		"etc/app/key.pem":            "# comment\n-----BEGIN " + "RSA PRIVATE KEY-----\n" + fill(64) + "\n",
		"opt/app/env":                "AWS_ACCESS_KEY_ID=" + key + "\nAWS_SECRET_ACCESS_KEY=" + strings.Repeat("aB3/", 10) + "\n",
		"home/admin/notes":           "https://user:" + secret + "@git.corp/repo\n",
		"opt/svc home/kube":          "users:\n- user:\n    token: " + strings.Repeat("abc1.", 8) + "\n",
		"var/lib/app/docker.json":    `{"auths":{"x":{"auth":"dXNlcjpwYXNz"}}}`,
		"etc/doc":                    "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE, https://user:password@example.com/\n",
		"etc/ssl/certs/test.pem":     "-----BEGIN " + "PRIVATE KEY-----\n" + fill(64),
		"var/lib/app/binary":         "\x00-----BEGIN " + "PRIVATE KEY-----\n" + fill(64),
		"usr/share/doc/openssl/test": "-----BEGIN " + "PRIVATE KEY-----\n" + fill(64),
		"root/link":                  "-> /etc/app/key.pem",
	})
	got := audit(t, h, "secrets-left")
	assert.ElementsMatch(t, []string{
		"/etc/app/key.pem: line 2 contains a private key",
		"/opt/app/env: line 1 contains an AWS access key",
		"/opt/app/env: line 2 contains an AWS secret key",
		"/home/admin/notes: line 1 contains a password in a URL",
		"/opt/svc home/kube: line 3 contains a kubeconfig's token",
		"/var/lib/app/docker.json: line 1 contains registry credentials",
		"/etc/ssl/certs/test.pem: line 1 contains a private key",
		"/var/lib/app/binary: byte 12 contains a private key",
	}, got)
	assert.NotContains(t, strings.Join(got, "\n"), secret)
}

func TestHostIDsAreFound(t *testing.T) {
	h, _ := tree(t, map[string]string{
		"etc/passwd":               passwd,
		"etc/machine-id":           "0123456789abcdef0123456789abcdef\n",
		"etc/agent.conf":           "instance: i-0a1b2c3d4e5f60718\n",
		"var/lib/agent/uuid":       "EC2E1916-9099-7CAF-FD21-012345ABCDEF\n",
		"var/lib/agent/machine":    "id=0123456789abcdef0123456789abcdef",
		"etc/words":                "multi-deadbeefcafe i-12 sci-fi\n",
		"var/lib/cloud/instance/x": "i-0a1b2c3d4e5f60718",

		"var/lib/cloud/seed/nocloud/meta-data": "local-hostname: ip-10-77-1-2\n",
	})
	assert.ElementsMatch(t, []string{
		"/etc/agent.conf: line 1 contains an EC2 instance id",
		"/var/lib/agent/uuid: line 1 contains an EC2 instance's UUID",
		"/var/lib/agent/machine: line 1 contains this machine's id",
	}, audit(t, h, "host-ids-left"))
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

// The entries are those of kubelets 1.24 to 1.36, and the temporary files of a
// kubelet that is killed while it writes, as on a loaded node. Other entries are
// findings.
func TestEntriesOfKubeletsAreKnown(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd}
	for _, name := range []string{
		".484622243", ".tmp-graceful_node_shutdown_state1234", "dra_health_state.tmp99", "tmpfs-noswap-test-77/x",
		"cpu_manager_state", "memory_manager_state", "dra_manager_state", "dra_health_state", "allocated_pods_state", "actuated_pods_state", "graceful_node_shutdown_state",
		"checkpoints/.5", "device-plugins/kubelet.sock", "image_manager/pulled/sha256-x", "image_manager/pulling/y", "pki/a.pem", "plugins/a", "plugins_registry/a",
		"pod-resources/kubelet.sock", "pods-api/pods-api.sock", "pods/a/b", "seccomp/profile.json", "kubeconfig", "config.json",
	} {
		files["var/lib/kubelet/"+name] = "x"
	}
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "kubelet-unknown"))
	got := audit(t, h, "kubelet")
	for _, gone := range []string{".484622243", ".tmp-graceful_node_shutdown_state1234", "dra_health_state.tmp99", "tmpfs-noswap-test-77", "dra_health_state", "image_manager/pulled", "image_manager/pulling"} {
		assert.True(t, slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, "/var/lib/kubelet/"+gone+": ") }), gone)
	}

	h, _ = tree(t, map[string]string{"etc/passwd": passwd, "var/lib/kubelet/new_state": "x", "var/lib/kubelet/.hidden": "x"})
	assert.Len(t, audit(t, h, "kubelet-unknown"), 2)
}

func TestAnImageOfAnotherToolNeedsItsPrograms(t *testing.T) {
	files := map[string]string{"etc/passwd": passwd, "etc/eks/": "", "usr/bin/nodeadm": "x", "usr/bin/containerd": "x", "opt/bin/kubelet": "x"}
	h, _ := tree(t, files)
	got := audit(t, h, "can-join")
	require.Len(t, got, 1)
	assert.Contains(t, got[0], "runc: no node joins without this program")
	delete(files, "opt/bin/kubelet")
	h, _ = tree(t, files)
	assert.Empty(t, audit(t, h, "can-join"), "a machine that is no node is a finding of not-a-node alone")
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
		"etc/sysctl.d/99-zzz.txt":    "net.ipv4.ip_forward = 0\n",
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

func TestFirewallsThatDropPodTrafficAreFound(t *testing.T) {
	const wants = "etc/systemd/system/multi-user.target.wants/"
	tests := map[string]struct {
		files map[string]string
		found string
	}{
		"firewalld":                    {map[string]string{wants + "firewalld.service": "-> /x"}, "firewalld.service"},
		"not enabled":                  {map[string]string{"etc/firewalld/firewalld.conf": ""}, ""},
		"ufw, Ubuntu's default":        {map[string]string{wants + "ufw.service": "-> /x", "etc/ufw/ufw.conf": "# ENABLED=yes\nENABLED=no\n"}, ""},
		"ufw":                          {map[string]string{wants + "ufw.service": "-> /x", "etc/ufw/ufw.conf": "ENABLED=yes\n"}, "ufw.service"},
		"nftables, Debian's default":   {map[string]string{wants + "nftables.service": "-> /x", "etc/nftables.conf": "table inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter;\n\t}\n\tchain forward {\n\t\ttype filter hook forward priority filter;\n\t}\n\tchain output {\n\t\ttype filter hook output priority filter; policy drop;\n\t}\n}\n"}, ""},
		"nftables, Arch's default":     {map[string]string{wants + "nftables.service": "-> /x", "etc/nftables.conf": "table inet filter {\n  chain forward {\n    type filter hook forward priority filter\n    policy drop\n  }\n}\n"}, "nftables.service"},
		"nftables with a last reject":  {map[string]string{wants + "nftables.service": "-> /x", "etc/sysconfig/nftables.conf": "chain forward { type filter hook forward priority 0; ct state established accept; reject with icmpx type host-prohibited\n}"}, "nftables.service"},
		"iptables-services":            {map[string]string{"etc/systemd/system/basic.target.wants/iptables.service": "-> /x", "etc/sysconfig/iptables": "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n-A INPUT -j REJECT --reject-with icmp-host-prohibited\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited\nCOMMIT\n"}, "iptables.service"},
		"iptables without a last drop": {map[string]string{wants + "netfilter-persistent.service": "-> /x", "etc/iptables/rules.v4": "*filter\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -d 169.254.169.254/32 -j DROP\nCOMMIT\n"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.files["etc/passwd"] = passwd
			h, _ := tree(t, test.files)
			got := audit(t, h, "host-firewall")
			if test.found == "" {
				assert.Empty(t, got)
				return
			}
			require.Len(t, got, 1)
			assert.Contains(t, got[0], "/"+test.found+": "+test.found+" starts at boot and blocks the chain forward: it drops packets of pods")
		})
	}
	files := map[string]string{"etc/passwd": passwd, wants + "ufw.service": "-> /x", "etc/ufw/ufw.conf": "ENABLED=yes\n",
		"etc/default/ufw": "DEFAULT_OUTPUT_POLICY=\"DROP\"\n"}
	for _, allowed := range []string{"", "-A ufw-user-output -p tcp --dport 443 -j ACCEPT\n"} {
		files["etc/ufw/user.rules"] = allowed
		h, _ := tree(t, files)
		assert.Equal(t, allowed == "", len(audit(t, h, "firewall-output")) == 1)
	}
}

func TestFilesOfAnEarlierBootAreReported(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, "run/aws-node/ipam.json": "{}", "run/adduser": "", "run/lock/": "", "var/run": "-> /run"})
	assert.Equal(t, []string{"/run/aws-node/ipam.json: left by an earlier boot: remove it"}, audit(t, h, "run-left"))
}

// An image must not name folders of the computer that built it.
func TestPathsOfTheBuildAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		manifest manifest.Manifest
		bill     string
		want     []string
	}{
		"nothing":   {},
		"addresses": {manifest: manifest.Manifest{Assets: []manifest.Asset{{ID: "kubelet", URL: "https://dl.k8s.io/x"}}, Images: []manifest.Image{{Name: "p", Source: "registry.k8s.io/pause:3.10"}}}, bill: "pkg:generic/x?download_url=https%3A%2F%2Fdl.k8s.io"},
		"a folder": {
			manifest: manifest.Manifest{Assets: []manifest.Asset{{ID: "kubelet", URL: "file:///home/me/mirror/kubelet"}, {ID: "runc", URL: "/home/me/runc"}, {ID: "cni", URL: `C:\cni`}}, Images: []manifest.Image{{Name: "p", Source: "~/pause.tar"}}},
			bill:     "\"url\": \"file:///home/me/x\"\n\"purl\": \"pkg:generic/x?download_url=file%3A%2F%2F%2Fhome%2Fme\"\n",
			want: []string{
				"/etc/eks/eksnode/manifest.json: the address of cni names a file of the computer that built the image: provision again",
				"/etc/eks/eksnode/manifest.json: the address of kubelet names a file of the computer that built the image: provision again",
				"/etc/eks/eksnode/manifest.json: the address of runc names a file of the computer that built the image: provision again",
				"/etc/eks/eksnode/manifest.json: the source of the image p names a file of the computer that built the image: provision again",
				"/etc/eks/eksnode/sbom.cdx.json: the bill of materials in 2 lines names a file of the computer that built the image: provision again",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := c.manifest.Encode()
			require.NoError(t, err)
			h, _ := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: string(text), manifest.SBOMPath[1:]: c.bill})
			assert.Equal(t, c.want, audit(t, h, "build-paths"))
		})
	}
}

func TestSplunksHostNameIsReported(t *testing.T) {
	const why = ": state of Splunk on the builder machine: run splunk clone-prep-clear-config, or remove the line with the name"
	h, _ := tree(t, map[string]string{
		"etc/passwd": passwd,
		"opt/splunkforwarder/etc/system/local/inputs.conf":   "[default]\nhost = ip-10-0-0-1\n",
		"opt/splunkforwarder/etc/system/local/server.conf":   "[general]\nserverName=$HOSTNAME\n",
		"opt/splunk/etc/system/local/inputs.conf":            "[default]\nhost = $decideOnStartup\n",
		"opt/splunk/etc/system/local/server.conf":            "[general]\nserverName = old\n",
		"opt/splunkforwarder/etc/system/default/inputs.conf": "host = x\n",
	})
	assert.Equal(t, []string{
		"/opt/splunkforwarder/etc/system/local/inputs.conf" + why, "/opt/splunk/etc/system/local/server.conf" + why,
	}, audit(t, h, "host-names"))
}

// A secret in a file that another rule removes is reported by that rule alone. If
// that rule is skipped, the secret is a finding.
func TestSecretsInRemovedFilesAreReportedOnce(t *testing.T) {
	key := "AK" + "IA" + strings.ToUpper(fill(16))
	h, _ := tree(t, map[string]string{
		"etc/passwd": passwd, "root/.bash_history": "export KEY=" + key, "root/.aws/credentials": key, "root/notes": key,
		"etc/hosts":                  "127.0.0.1 localhost\n127.0.1.1 ip-10-0-0-9.eu-west-1.compute.internal\n# https://ci:" + fill(9) + "@git.corp/\n",
		"var/lib/kubelet/kubeconfig": "server: https://" + strings.Repeat("0A", 16) + ".gr7.eu-west-1.eks.amazonaws.com\n",
	})
	found := func(skip ...string) (targets []string) {
		items := selected(t, Spec{Skip: append(skip, "can-join", "not-a-node")}, ToAudit)
		for range 2 { // a second plan has the same result
			targets = nil
			for _, p := range plan.Make(t.Context(), h, items) {
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

func TestIdentifiersOfMachineAndClusterAreFound(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 2)
	h, _ := tree(t, map[string]string{
		"etc/passwd": passwd, "etc/machine-id": id + "\n",
		"etc/app/uuid":                                     "id: 01234567-89AB-CDEF-0123-456789ABCDEF\n",
		"etc/app/name":                                     "ip-10-0-1-249.eu-west-1.compute.internal\n",
		"etc/netplan/99-own.yaml":                          "network:\n  ethernets:\n    eth0:\n      match: {macaddress: \"06:11:22:33:44:55\"}\n",
		"etc/systemd/network/10-eth.link":                  "[Match]\nMACAddress=06:11:22:33:44:55\n",
		"etc/sysconfig/network-scripts/ifcfg-ens":          "DEVICE=ens5\nHWADDR=06:11:22:33:44:55\n",
		"etc/systemd/system/kubelet.service.d/99-own.conf": "[Service]\nEnvironment=SERVER=https://" + strings.Repeat("0A", 16) + ".gr7.eu-west-1.eks.amazonaws.com\n",
		"etc/words":                                        "ip-10-0 trip-1-2-3-4 zip-1-2-3\nMACAddress=06:11:22:33:44:55\n",
		"etc/udev/x":                                       "address}==\"06:11:22:33:44:55\"\n",
		"etc/endpoint":                                     "https://NAME.gr7.REGION.eks.amazonaws.com\n",
	})
	assert.ElementsMatch(t, []string{
		"/etc/app/uuid: line 1 contains this machine's id",
		"/etc/app/name: line 1 contains an EC2 instance's host name",
		"/etc/netplan/99-own.yaml: line 4 contains a network interface's address",
		"/etc/systemd/network/10-eth.link: line 2 contains a network interface's address",
		"/etc/sysconfig/network-scripts/ifcfg-ens: line 2 contains a network interface's address",
		"/etc/systemd/system/kubelet.service.d/99-own.conf: line 2 contains an EKS cluster's endpoint",
	}, audit(t, h, "host-ids-left"))
}
