//go:build e2e

package scrub_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// limit bounds a test with machines; virtual machines are emulated.
const limit = 30 * time.Minute

// While containerd is stopped, its containers are visible but only containerd
// may remove them: the scrub keeps them, and both scrub and audit report
// findings. After containerd starts, the scrub removes the containers and keeps
// the image complete.
func TestScrubKeepsContainersOfStoppedContainerd(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn)
	n := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-stopped"})
	equip(t, n)
	const metadata = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db"
	n.Sh(t, `ctr -n k8s.io containers create --snapshotter native --label io.cri-containerd.kind=container `+imageName+` old-container
ctr -n k8s.io leases create --id old-lease
ctr -n other containers ls
systemctl stop containerd`)
	before := n.Sh(t, "sha256sum "+metadata)

	result := n.Try(t, "eksnode scrub --yes --rules containers")
	assert.Equal(t, 1, result.Code, result.Stdout+result.Stderr)
	for _, want := range []string{
		"finding  container k8s.io/old-container  (containers: containerd does not run, and only containerd can remove this: start containerd on the machine and scrub again)",
		"finding  lease k8s.io/old-lease  (containers: ",
	} {
		assert.Contains(t, result.Stdout, want)
	}
	assert.Equal(t, before, n.Sh(t, "sha256sum "+metadata), "the scrub changed the metadata")
	result = n.Try(t, "eksnode audit --rules containers")
	assert.Equal(t, 1, result.Code, result.Stdout+result.Stderr)
	assert.Contains(t, result.Stdout, "container k8s.io/old-container")
	assert.Contains(t, result.Stdout, "FAIL: 2 findings by 1 rule of 1")

	n.Sh(t, "systemctl start containerd")
	result = n.Try(t, "eksnode scrub --yes --rules containers")
	require.Zero(t, result.Code, result.Stdout+result.Stderr)
	assert.Contains(t, result.Stdout, "DONE: 1 of 1 rule changed, 2 actions")
	assert.Contains(t, n.Sh(t, "ctr -n k8s.io images ls -q"), imageName)
	assert.Contains(t, n.Sh(t, "ctr -n k8s.io images check"), "complete (2/2)")
	assert.Empty(t, n.Sh(t, "ctr -n k8s.io containers ls -q; ctr -n k8s.io leases ls -q"))
	for _, containerd := range []string{"start", "stop"} {
		n.Sh(t, "systemctl "+containerd+" containerd")
		assert.Contains(t, n.Sh(t, "eksnode audit --rules containers"), "PASS: 1 rule, nothing left")
	}
}
