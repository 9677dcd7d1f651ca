package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A good start has lines that look like failures. In this order a node of Amazon
// Linux 2023 wrote them.
var goodStart = samples("starts.txt")["good"]

// The lines after it are those of a kubelet when a pod is deleted: the node may no longer
// read the pod and its secrets.
func TestAGoodStartSaysJoined(t *testing.T) {
	for _, log := range []string{goodStart, goodStart + samples("starts.txt")["deleted pod"]} {
		r := searched(t, "journal\n"+log)
		for _, f := range r.Findings {
			assert.Fail(t, f.Rule.ID, strings.Join(f.Evidence, "\n"))
		}
		assert.Equal(t, Joined, r.Result())
	}
}

// Lines that look like a fault, and blame nothing.
func TestLinesOfHealthyNodesBlameNothing(t *testing.T) {
	for name, line := range samples("healthy.txt") {
		assert.Empty(t, searched(t, "journal\n"+line).Findings, name)
	}
}

// The remedy names the program that has to be looked at.
func TestTheOwnerOfTheNetworkIsNamed(t *testing.T) {
	for line, owner := range map[string]string{
		`plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized`: "calico-node",
		`plugin type="cilium-cni" failed (add): Cilium API client timeout exceeded`:                       "k8s-app=cilium",
		`plugin type="aws-cni" failed (add): add cmd: failed to assign`:                                   "k8s-app=aws-node",
		`lookup api.example.com on 169.254.20.10:53: read udp 10.0.0.1:1->169.254.20.10:53: i/o timeout`:  "node-local-dns",
		`lookup api.example.com on 10.0.0.2:53: no such host`:                                             "enable-dns-support",

		`main.go:229] Failed to create SubnetManager: error retrieving pod spec for 'a/b': Unauthorized`: "app=flannel",
	} {
		got := searched(t, "journal\n"+line+"\n").Findings
		if assert.NotEmpty(t, got, line) {
			assert.Contains(t, strings.Join(got[0].Rule.Commands, "\n"), owner)
		}
	}
}

// Without a snapshotter containerd loads no cri plugin.
func TestAMissingSnapshotterComesBeforeTheMissingPlugin(t *testing.T) {
	r := report(t, "unknown service runtime.v1alpha2.RuntimeService", `failed to find snapshotter "overlayfs"`)
	assert.Equal(t, []string{"file-system", "cri-plugin"}, []string{r.Findings[0].Rule.ID, r.Findings[1].Rule.ID})
}

// The innermost error is at the end of a line, which a cut keeps.
func TestTheEndOfALongLineIsShown(t *testing.T) {
	line := `Aug 04 10:11:12 ip-10-0-1-2 kubelet[2201]: E0804 10:11:12.123456    2201 run.go:72] "command failed" err="failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to read kubelet config file, error: open /var/lib/kubelet/config.yaml: no such file or directory"`
	got := searched(t, "journal\n"+line+"\n").Findings
	assert.Equal(t, "template", got[0].Rule.ID)
	assert.True(t, strings.HasSuffix(got[0].Evidence[0], `no such file or directory"`), got[0].Evidence[0])
}

// A node that joined has no cause that only says where to look further.
func TestAGeneralCauseNeedsANodeThatDidNotJoin(t *testing.T) {
	for _, r := range Rules() {
		if r.Otherwise {
			line := lines[r.ID][0] + "\n"
			assert.Equal(t, Found, searched(t, "journal\n"+line).Result(), r.ID)
			assert.Equal(t, Joined, searched(t, "journal\n"+goodStart+line).Result(), r.ID)
		}
	}
}

// One fault in the noise of a good start up to the point where the node would join is
// found.
func TestAFaultInTheNoiseOfAStartIsFound(t *testing.T) {
	before, _, _ := strings.Cut(goodStart, "Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:04.300000")
	for _, r := range Rules() {
		got := searched(t, "journal\n"+before+lines[r.ID][0]+"\n")
		if assert.NotEmpty(t, got.Findings, r.ID) {
			assert.Equal(t, r.ID, got.Findings[0].Rule.ID)
		}
	}
}
