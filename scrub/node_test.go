//go:build linux

package scrub

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// An audit fails on a machine that is not a node, and lists the missing parts.
func TestAMachineThatIsNotANodeIsFound(t *testing.T) {
	const kubelet, runtime, bootstrap = "kubelet", "a container runtime (containerd or crio)", "a bootstrap (nodeadm or /etc/eks/bootstrap.sh)"
	ours, err := (&manifest.Manifest{}).Encode()
	require.NoError(t, err)
	for name, c := range map[string]struct {
		files   map[string]string
		missing string // empty if the machine is a node
	}{
		"a plain machine":         {nil, kubelet + ", " + runtime + ", " + bootstrap},
		"containerd alone":        {map[string]string{"usr/bin/containerd": "x", "var/lib/containerd/x": "x"}, kubelet + ", " + bootstrap},
		"Kubernetes without EKS":  {map[string]string{"usr/bin/kubelet": "x", "usr/bin/containerd": "x", "usr/bin/kubeadm": "x", "var/lib/kubelet/x": "x"}, bootstrap},
		"a bootstrap alone":       {map[string]string{"etc/eks/bootstrap.sh": "x"}, kubelet + ", " + runtime},
		"docker":                  {map[string]string{"usr/bin/kubelet": "x", "usr/bin/dockerd": "x", "usr/bin/nodeadm": "x"}, runtime},
		"links that lead nowhere": {map[string]string{"usr/bin/kubelet": "-> /opt/kubelet", "usr/bin/containerd": "x", "usr/bin/nodeadm": "-> nodeadm"}, kubelet + ", " + bootstrap},
		"folders":                 {map[string]string{"usr/bin/kubelet/": "", "usr/bin/containerd": "x", "etc/eks/bootstrap.sh/": ""}, kubelet + ", " + bootstrap},
		"Amazon Linux 2023's AMI": {map[string]string{"usr/bin/kubelet": "x", "usr/bin/containerd": "x", "usr/bin/nodeadm": "x"}, ""},
		"Amazon Linux 2's AMI":    {map[string]string{"usr/bin/kubelet": "x", "usr/bin/containerd": "x", "etc/eks/bootstrap.sh": "x"}, ""},
		"CRI-O, in other folders": {map[string]string{"opt/bin/kubelet": "x", "usr/local/bin/crio": "x", "usr/local/bin/nodeadm": "-> /opt/bin/eksnode", "opt/bin/eksnode": "x"}, ""},
		"provisioned by eksnode":  {map[string]string{manifest.Path[1:]: string(ours)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"etc/passwd": passwd}
			maps.Copy(files, c.files)
			h, _ := tree(t, files)
			var want []string
			if c.missing != "" {
				want = []string{"machine: this machine is not a node: /etc/eks/eksnode/manifest.json is missing, and so is " + c.missing +
					"; provision the machine, or skip the rule not-a-node if another tool makes it a node"}
			}
			assert.Equal(t, want, audit(t, h, "not-a-node"))
		})
	}
	h, _ := tree(t, map[string]string{"etc/passwd": passwd})
	items, err := Spec{Skip: []string{"not-a-node"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Empty(t, plan.Make(t.Context(), h, items), "a plain machine with the rule skipped")
	items, err = Spec{}.AuditItems(nil)
	require.NoError(t, err)
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
			items, err := c.spec.AuditItems(nil)
			require.NoError(t, err)
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
	_, err := Spec{Node: "maybe"}.AuditItems(nil)
	assert.EqualError(t, err, `node: "maybe" is not known; known: auto, yes, no`)
}

// A manifest that cannot be read is an error, not a node.
func TestADamagedManifestIsAnError(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: `{"schema":`})
	items, err := Spec{Only: []string{"not-a-node"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Contains(t, plan.Make(t.Context(), h, items)[0].Error, "not-a-node: ")
}
