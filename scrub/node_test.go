//go:build linux

package scrub

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A whole audit of a machine that is not a node finds just that.
func TestAMachineThatIsNotANodeIsFound(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd})
	items := selected(t, Spec{Skip: []string{"not-a-node"}}, ToAudit)
	assert.Empty(t, plan.Make(t.Context(), h, items), "a plain machine with the rule skipped")
	items = selected(t, Spec{}, ToAudit)
	assert.Len(t, plan.Make(t.Context(), h, items), 1)
}

// Audits of other disks want no node: with auto, only a machine with something of
// a node must be one, and with no, none.
func TestWhichMachinesMustBeNodes(t *testing.T) {
	web := map[string]string{"etc/passwd": passwd, "usr/bin/containerd": "x"}
	half := map[string]string{"etc/passwd": passwd, "usr/bin/kubelet": "x"}
	for name, c := range map[string]struct {
		files map[string]string
		spec  Spec
		found int
	}{
		"a web server, by default": {web, Spec{}, 1},
		"a web server, auto":       {web, Spec{Node: NodeAuto}, 0},
		"a web server, chosen":     {web, Spec{Node: NodeAuto, Only: []string{"not-a-node"}}, 1},
		"a web server, no":         {web, Spec{Node: NodeNo}, 0},
		"half a node, auto":        {half, Spec{Node: NodeAuto}, 1},
		"half a node, yes":         {half, Spec{Node: NodeYes}, 1},
		"half a node, no":          {half, Spec{Node: NodeNo}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := tree(t, c.files)
			items := selected(t, c.spec, ToAudit)
			findings := 0
			for _, p := range plan.Make(t.Context(), h, items) {
				require.Empty(t, p.Error)
				if p.Item == "not-a-node" {
					findings += len(p.Findings)
				}
			}
			assert.Equal(t, c.found, findings)
		})
	}
	_, err := Spec{Node: "maybe"}.Items(ToAudit, nil)
	assert.EqualError(t, err, `node: "maybe" is not known; known: auto, yes, no`)
}

// A manifest that cannot be read is an error, not a node.
func TestADamagedManifestIsAnError(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: `{"schema":`})
	items := selected(t, Spec{Only: []string{"not-a-node"}}, ToAudit)
	assert.Contains(t, plan.Make(t.Context(), h, items)[0].Error, "not-a-node: ")
}

// renderedContainerd has the settings that nodeadm renders, in one of its forms.
const renderedContainerd = `version = 3
root = "/var/lib/containerd"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "localhost/kubernetes/pause:latest"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
base_runtime_spec = "/etc/containerd/base-runtime-spec.json"
`

const renderedSOCI = `debug = false

[content_store]
type = 'containerd'

[cri_keychain]
enable_keychain = true
image_service_path = '/run/containerd/containerd.sock'

[pull_modes.parallel_pull_unpack]
enable = true
max_concurrent_downloads = -1

[pull_modes.parallel_pull_unpack.decompress_streams."gzip"]
path = '/usr/bin/unpigz'
`

// The files that Amazon's own first boots leave are removed or restored.
func TestFilesOfAmazonsFirstBootsAreRemoved(t *testing.T) {
	unit := func(lines ...string) string { return "  " + strings.Join(lines, "\n  ") + "\n" }
	endpoint := "CE0253A94B6B14215AE3282580CFA5E3.gr7.us-west-2.eks.amazonaws.com"
	for name, c := range map[string]struct {
		files, kept map[string]string
		want        []string
	}{
		"setup-local-disks --dir, an array": {map[string]string{
			"etc/systemd/system/data-0.mount":                                  unit("[Unit]", "Description=Mount EC2 Instance Store NVMe disk RAID0", "[Mount]", "What=UUID=1", "Where=/data/0", "Type=xfs", "Options=defaults,noatime", "[Install]", "WantedBy=multi-user.target"),
			"etc/systemd/system/var-lib-kubelet.mount":                         unit("    [Unit]", "    Description=Mount /var/lib/kubelet on EC2 Instance Store NVMe RAID0", "    [Mount]", "    What=/data/0/kubelet", "    Where=/var/lib/kubelet", "    Type=none", "    Options=bind"),
			`etc/systemd/system/var-lib-soci\x2dsnapshotter\x2dgrpc.mount`:     unit("[Unit]", "Description=Mount /var/lib/soci-snapshotter-grpc on EC2 Instance Store NVMe RAID10", "[Mount]", "What=/elsewhere/0/soci", "Where=/var/lib/soci-snapshotter-grpc", "Options=bind"),
			"etc/systemd/system/multi-user.target.wants/data-0.mount":          "-> /etc/systemd/system/data-0.mount",
			"etc/systemd/system/multi-user.target.wants/var-lib-kubelet.mount": "-> /etc/systemd/system/var-lib-kubelet.mount",
			".aws/mdadm.conf": "ARRAY /dev/md/kubernetes\n",
		}, map[string]string{"etc/systemd/system/srv.mount": unit("[Unit]", "Description=ours", "[Mount]", "What=/dev/sdb", "Where=/srv")}, []string{
			"- /.aws/mdadm.conf", "- /etc/systemd/system/data-0.mount", "- /etc/systemd/system/multi-user.target.wants/data-0.mount", "- /etc/systemd/system/multi-user.target.wants/var-lib-kubelet.mount",
			"- /etc/systemd/system/var-lib-kubelet.mount", `- /etc/systemd/system/var-lib-soci\x2dsnapshotter\x2dgrpc.mount`,
		}},
		"setup-local-disks --dir, disks": {map[string]string{
			"etc/systemd/system/data-1.mount": unit("  [Unit]", "  Description=Mount EC2 Instance Store NVMe disk 1", "  [Mount]", "  What=/dev/nvme1n1", "  Where=/data/1"),
		}, nil, []string{"- /etc/systemd/system/data-1.mount"}},
		"containerd's configuration": {map[string]string{"usr/bin/nodeadm": "x", "etc/containerd/config.toml": renderedContainerd, "etc/containerd/base-runtime-spec.json": "{}"}, nil,
			[]string{"- /etc/containerd/base-runtime-spec.json", "- /etc/containerd/config.toml"}},
		"containerd's configuration, merged": {map[string]string{"usr/bin/nodeadm": "x", "etc/containerd/config.toml": strings.ReplaceAll(renderedContainerd, `"`, `'`) + "[debug]\nlevel = 'debug'\n"}, nil,
			[]string{"- /etc/containerd/config.toml"}},
		"containerd's configuration of a person": {nil, map[string]string{"usr/bin/nodeadm": "x", "etc/containerd/config.toml": "version = 3\nroot = \"/var/lib/containerd\"\n"}, nil},
		"SOCI's configuration": {map[string]string{"usr/bin/nodeadm": "x", sociConfig[1:]: renderedSOCI, sociDropIn[1:]: "[Unit]\nRequires=soci-snapshotter.service\nAfter=soci-snapshotter.service\n"}, nil,
			[]string{"- " + sociConfig, "- " + sociDropIn}},
		"SOCI's configuration of a person":      {nil, map[string]string{"usr/bin/nodeadm": "x", sociConfig[1:]: "# ours\n" + renderedSOCI}, nil},
		"SOCI's configuration with more tables": {nil, map[string]string{"usr/bin/nodeadm": "x", sociConfig[1:]: renderedSOCI + "[http]\nMaxRetries = 3\n"}, nil},
		"iptables-restore with a cluster's rules": {map[string]string{
			"etc/sysconfig/iptables":                                              "*nat\n:KUBE-SERVICES - [0:0]\n",
			"etc/systemd/system/iptables-restore.service":                         "[Service]\nExecStart=/bin/bash -c \"/sbin/iptables-restore < /etc/sysconfig/iptables\"\n",
			"etc/systemd/system/multi-user.target.wants/iptables-restore.service": "-> /etc/systemd/system/iptables-restore.service",
		}, map[string]string{"etc/eks/iptables-restore.service": "[Service]\n"}, []string{
			"- /etc/sysconfig/iptables", "- /etc/systemd/system/iptables-restore.service", "- /etc/systemd/system/multi-user.target.wants/iptables-restore.service",
		}},
		"iptables-restore with an administrator's rules": {nil, map[string]string{
			"etc/sysconfig/iptables":                                              "*filter\n-A INPUT -j ACCEPT\n",
			"etc/systemd/system/iptables-restore.service":                         "[Service]\nExecStart=/bin/bash -c \"/sbin/iptables-restore < /etc/sysconfig/iptables\"\n",
			"etc/systemd/system/multi-user.target.wants/iptables-restore.service": "-> /etc/systemd/system/iptables-restore.service",
		}, nil},
		"an Outpost in hosts": {map[string]string{"etc/hosts": "127.0.0.1\tlocalhost\n10.0.0.5\t" + endpoint + "\n10.0.0.6      " + strings.ToLower(endpoint) + "\n2600:1f14::5\t0123456789abcdef0123456789abcdef.eks-cluster.us-west-2.api.aws\n10.0.0.7 db.internal\n"},
			nil, []string{"~ /etc/hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd}
			for _, more := range []map[string]string{c.files, c.kept} {
				maps.Copy(files, more)
			}
			h, root := tree(t, files)
			before := snapshot(t, root)
			apply(t, h, Spec{Only: []string{"bootstrap", "hosts", "iptables-rules"}})
			after := snapshot(t, root)
			assert.Equal(t, c.want, diff(before, after))
			if text, ok := c.files["etc/hosts"]; ok {
				assert.NotEqual(t, text, after["/etc/hosts"])
				assert.Equal(t, "127.0.0.1\tlocalhost\n10.0.0.7 db.internal\n", after["/etc/hosts"])
			}
		})
	}
}
