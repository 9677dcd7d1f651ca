//go:build e2e && full

package join_test

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/join"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
)

// What others check on nodes holds for an instance of the image: kubeadm before
// it joins, kube-bench on the running node, kubectl drain and a reboot, and
// critest of its runtime.
func TestTheChecksOfOthers(t *testing.T) {
	w := openWorld(t, "", 30*time.Minute)
	before := w.launch("i-before", w.image, w.b, nil)
	w.install(before, tools.NameKubeadm, "cat > /run/kubeadm && chmod 755 /run/kubeadm")
	w.kubeadm(before)
	w.end(before)

	i := w.launch("i-node", w.image, w.b, w.b.NodeConfig())
	defer w.end(i)
	w.works(w.b, i, "app", "word-of-b")
	t.Run("a pod has its projected token", func(t *testing.T) {
		token, err := w.kubectl(w.b, "exec", "app", "--", "cat", "/token/token")
		require.NoError(t, err, token)
		assert.Regexp(t, `^eyJ[^.]+\.[^.]+\.[^.]+$`, token)
	})
	t.Run("kube-bench", func(t *testing.T) {
		w := w.in(t)
		w.install(i, tools.NameKubeBench, "mkdir /run/kube-bench && tar -xzC /run/kube-bench")
		w.kubeBench(i)
	})
	t.Run("drain and reboot", func(t *testing.T) {
		w := w.in(t)
		out, err := w.b.Kubectl(w.ctx, "", "drain", i.PrivateDNSName, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=90s")
		require.NoError(t, err, out)
		_, err = w.b.Pod(w.ctx, "app")
		assert.True(t, join.IsNotFound(err), "%v", err)
		w.reboot(w.b, i)
		out, err = w.b.Kubectl(w.ctx, "", "uncordon", i.PrivateDNSName)
		require.NoError(t, err, out)
		w.works(w.b, i, "again", "word-after-the-reboot")
	})
	t.Run("critest", func(t *testing.T) { w.in(t).critest(i) })
}

// install puts a program on an instance: the script reads it.
func (w *world) install(i *join.Instance, name, script string) {
	w.t.Helper()
	path, err := tools.Build(w.ctx, name, "", runtime.GOARCH, logWriter{w.t})
	require.NoError(w.t, err)
	content, err := os.ReadFile(path)
	require.NoError(w.t, err)
	result, err := i.Run(w.ctx, "sudo sh -c '"+script+"'", bytes.NewReader(content))
	require.NoError(w.t, err)
	require.Zero(w.t, result.Code, result.Stderr)
}

// kubeadm runs its checks of a machine that is about to join; after them it looks
// for a cluster of its own kind, which it is given none of.
func (w *world) kubeadm(i *join.Instance) {
	w.t.Helper()
	result, err := i.Try(w.ctx, `systemctl start containerd
echo '{"apiVersion": "v1", "kind": "Config"}' > /run/discovery
timeout 60 /run/kubeadm join phase preflight --discovery-file /run/discovery \
  --ignore-preflight-errors=`+strings.Join(w.exceptions("kubeadm").names(), ",")+` 2>&1`)
	require.NoError(w.t, err)
	w.step("kubeadm: %s", result.Stdout)
	assert.Contains(w.t, result.Stdout, "[preflight] Running pre-flight checks")
	assert.NotContains(w.t, result.Stdout, "[ERROR")
	assert.NotEqual(w.t, 124, result.Code, "it does not end")
}

func (w *world) kubeBench(i *join.Instance) {
	w.t.Helper()
	out := w.do(i, "cd /run/kube-bench && ./kube-bench run --targets node --benchmark "+tools.KubeBenchBenchmark+" --config-dir cfg --json")
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
