//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// A whole audit of a machine that is not a node finds just that.
func TestAMachineThatIsNotANodeIsFound(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd})
	assert.Empty(t, planned(t, h, Spec{Skip: []string{"not-a-node"}}, ToAudit), "a plain machine with the rule skipped")
	assert.Len(t, planned(t, h, Spec{}, ToAudit), 1)
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
			findings := 0
			for _, p := range planned(t, h, c.spec, ToAudit) {
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
	assert.Contains(t, planned(t, h, Spec{Only: []string{"not-a-node"}}, ToAudit)[0].Error, "not-a-node: ")
}

// The unit that loads the rules of iptables goes together with the rules of a cluster.
func TestTheUnitOfRemovedRulesIsRemoved(t *testing.T) {
	const unit = "/etc/systemd/system/iptables-restore.service"
	link := "/etc/systemd/system/multi-user.target.wants/iptables-restore.service"
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "etc/sysconfig/iptables": "*nat\n:KUBE-SERVICES - [0:0]\n", link: "-> " + unit,
		unit:                               "[Service]\nExecStart=/bin/bash -c \"/sbin/iptables-restore < /etc/sysconfig/iptables\"\n",
		"etc/eks/iptables-restore.service": "[Service]\n",
	})
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"bootstrap", "iptables-rules"}})
	assert.Equal(t, []string{"- /etc/sysconfig/iptables", "- " + unit, "- " + link}, diff(before, snapshot(t, root)))
}
