//go:build e2e && full

package join_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// An instance of the image passes the checks of other projects: kubeadm before
// it joins, kube-bench on the running node, kubectl drain and a reboot, and
// critest of its runtime.
func TestChecksOfOtherProjectsPass(t *testing.T) {
	w := openWorld(t, lab.System{}, 30*time.Minute)
	before := w.launch("i-before", w.image, w.b.role, nil)
	before.Upload(t, fetch(t, []string{tools.NameKubeadm})[tools.NameKubeadm], "/run/kubeadm")
	w.kubeadm(before)
	w.end(before)

	i := w.launch("i-node", w.image, w.b.role, w.b.nodeConfig())
	defer w.end(i)
	w.works(w.b, i, "app", "word-of-b")
	t.Run("a pod has its projected token", func(t *testing.T) {
		token := w.b.await(t, "exec", "app", "--", "cat", "/token/token")
		assert.Regexp(t, `^eyJ[^.]+\.[^.]+\.[^.]+$`, token)
	})
	t.Run("kube-bench", func(t *testing.T) {
		w := w.in(t)
		i.Upload(t, fetch(t, []string{tools.NameKubeBench})[tools.NameKubeBench], "/run/kube-bench.tar.gz")
		w.kubeBench(i)
	})
	t.Run("drain and reboot", func(t *testing.T) {
		w := w.in(t)
		w.b.must(t, "", "drain", i.PrivateDNSName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=90s")
		w.b.hasNo(t, "pod", "app")
		w.reboot(w.b, i)
		w.b.must(t, "", "uncordon", i.PrivateDNSName)
		w.works(w.b, i, "again", "word-after-the-reboot")
	})
	t.Run("critest", func(t *testing.T) { w.in(t).critest(i) })
}

// kubeadm runs kubeadm's preflight checks for joining. After them, kubeadm
// looks for a kubeadm cluster and finds none.
func (w *world) kubeadm(i *instance) {
	w.t.Helper()
	result := i.Try(w.t, `systemctl start containerd
echo '{"apiVersion": "v1", "kind": "Config"}' > /run/discovery
timeout 60 /run/kubeadm join phase preflight --discovery-file /run/discovery \
  --ignore-preflight-errors=`+strings.Join(w.exceptions("kubeadm").names(), ",")+` 2>&1`)
	w.step("kubeadm: %s", result.Stdout)
	assert.Contains(w.t, result.Stdout, "[preflight] Running pre-flight checks")
	assert.NotContains(w.t, result.Stdout, "[ERROR")
	assert.NotEqual(w.t, 124, result.Code, "kubeadm did not end")
}

func (w *world) kubeBench(i *instance) {
	w.t.Helper()
	out := i.Sh(w.t, "mkdir /run/kube-bench && cd /run/kube-bench && tar -xzf ../kube-bench.tar.gz && ./kube-bench run --targets node --benchmark "+tools.KubeBenchBenchmark+" --config-dir cfg --json")
	var report struct {
		Controls []struct {
			Tests []struct {
				Results []struct {
					Number string `json:"test_number"`
					Text   string `json:"test_desc"`
					Status string `json:"status"`
					Reason string `json:"reason"`
					Actual string `json:"actual_value"`
				} `json:"results"`
			} `json:"tests"`
		}
		Totals map[string]int
	}
	require.NoError(w.t, json.Unmarshal([]byte(out), &report))
	w.step("kube-bench: %v", report.Totals)
	exceptions := w.exceptions("kube-bench")
	for _, control := range report.Controls {
		for _, test := range control.Tests {
			for _, r := range test.Results {
				if r.Status != "PASS" {
					exceptions.allow(r.Number, r.Status+": "+r.Text+" "+r.Reason+" "+r.Actual)
				}
			}
		}
	}
	exceptions.close()
	assert.Greater(w.t, report.Totals["total_pass"], 10)
}
