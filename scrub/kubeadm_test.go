//go:build linux

package scrub

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestKubeadmsHostsReportTheControlPlanesSettings(t *testing.T) {
	files := map[string]string{
		"etc/passwd": passwd, "etc/kubernetes/audit-policy.yaml": "kind: Policy\n", "etc/kubernetes/kubelet/config.json.d/50-own.conf": "{}",
		"etc/kubernetes/manifests/": "", "etc/kubernetes/admin.conf": "x", "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
	}
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "kubeadm-unknown"), "an EKS node has no kubeadm")
	assert.Equal(t, []string{"/var/lib/kubelet/config.yaml: no rule covers this file: remove it by hand if it is state of the old cluster"}, audit(t, h, "kubelet-unknown"))

	files["usr/bin/kubeadm"] = "program"
	h, root := tree(t, files)
	assert.Equal(t, []string{"/etc/kubernetes/audit-policy.yaml: no rule covers this file of a machine with kubeadm: remove it by hand if it belongs to the old cluster"}, audit(t, h, "kubeadm-unknown"))
	before := snapshot(t, root)
	apply(t, h, Spec{Only: []string{"kubelet-unknown"}})
	assert.Equal(t, []string{"- /var/lib/kubelet/config.yaml"}, diff(before, snapshot(t, root)))
}
