package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/plugin/eksnode"
)

func TestWatched(t *testing.T) {
	assert.Equal(t, []string{
		"/usr/bin/kubelet", "/opt/cni/bin/bridge", "/etc/systemd/system/kubelet.service", "/etc/eks", "/etc/eks/eksnode",
	}, example().watched(), "all but what is only ours")
}

func TestRemoval(t *testing.T) {
	script := example().removal()
	shellcheck(t, script)
	assert.Equal(t, `rm -f /usr/bin/kubelet /opt/cni/bin/bridge /etc/systemd/system/kubelet.service /usr/bin/eksnode `+manifest.Path+`
if [ -d /etc/eks/eksnode ]; then rmdir /etc/eks/eksnode; fi
if [ -d /etc/eks ]; then rmdir /etc/eks; fi
systemctl --quiet enable containerd.service
systemctl daemon-reload
sync -f /
`, script)
}

func TestSameSteps(t *testing.T) {
	l := example()
	require.NoError(t, l.sameSteps(l.report, true))
	without := example().report
	without.Outcomes[1].Actions = nil
	require.NoError(t, l.sameSteps(without, false))
	require.Error(t, l.sameSteps(without, true))
	without.Outcomes[3].Actions = []plan.Action{}
	require.ErrorContains(t, l.sameSteps(without, false), `"kubelet 0"`)
}

func TestProvisionFieldsAreABlock(t *testing.T) {
	fields, err := provisionFields("http://10.77.0.1:8080")
	require.NoError(t, err)
	require.NoError(t, new(eksnode.Provisioner).Prepare(fields))
}
