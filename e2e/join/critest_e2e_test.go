//go:build e2e && full

package join_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// critestPasses is the number of critest specs that pass. A smaller number
// means that some specs did not run.
const critestPasses = 90

// spec is a spec of critest in ginkgo's report.
type spec struct {
	ContainerHierarchyTexts    []string
	LeafNodeType, LeafNodeText string
	State                      string
	Failure                    struct{ Message string }
}

func (s spec) name() string {
	return strings.TrimPrefix(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), "[k8s.io] ")
}

// withPorts adds the mapping of node ports to the pods' network, as in the VPC
// CNI's configuration.
const withPorts = `sed -i 's|"routes": \[{"dst": "0.0.0.0/0"}\]}}\]}|"routes": [{"dst": "0.0.0.0/0"}]}}, {"type": "portmap", "capabilities": {"portMappings": true}}]}|' /etc/cni/net.d/10-lab.conflist
grep -q portmap /etc/cni/net.d/10-lab.conflist
`

// critest runs the validation of container runtimes against the node's
// containerd, with the configuration of its first boot. It stops the kubelet,
// which would end pods that are not its own.
func (w *world) critest(i *instance) {
	w.t.Helper()
	i.Upload(w.t, fetch(w.t, []string{tools.NameCritest})[tools.NameCritest], "/run/critest")
	i.Sh(w.t, "systemctl stop kubelet\n"+w.serveRuntimeImages()+withPorts)
	out := i.Sh(w.t, "cd /run && TMPDIR=/var/tmp ./critest -ginkgo.json-report=/run/critest.json > critest.log 2>&1 || true\ncat critest.json || tail -40 critest.log")
	var suites []struct{ SpecReports []spec }
	require.NoError(w.t, json.Unmarshal([]byte(out), &suites), "%.2000s", out)
	require.Len(w.t, suites, 1)
	count := map[string]int{}
	exceptions := w.exceptions("critest")
	for _, s := range suites[0].SpecReports {
		benchmark := slices.ContainsFunc(s.ContainerHierarchyTexts, func(t string) bool { return strings.Contains(t, "benchmark") })
		if s.LeafNodeType != "It" || benchmark {
			continue
		}
		count[s.State]++
		if s.State != "passed" {
			exceptions.allow(s.name(), s.State+": "+s.Failure.Message)
		}
	}
	exceptions.close()
	w.step("critest: %v", count)
	assert.GreaterOrEqual(w.t, count["passed"], critestPasses)
}
