package provisioner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// bootPaths are the files of first boot on Debian, without folders.
var bootPaths = []string{
	"/etc/eks/bootstrap.sh", "/usr/bin/nodeadm", "/usr/bin/aws-iam-authenticator",
	"/usr/lib/systemd/system/eksnode-network.service", "/usr/lib/systemd/system/eksnode-config.service", "/usr/lib/systemd/system/eksnode-run.service",
	"/etc/systemd/system/multi-user.target.wants/eksnode-network.service", "/etc/systemd/system/multi-user.target.wants/eksnode-config.service",
	"/etc/systemd/system/multi-user.target.wants/eksnode-run.service",
}

const presetPath = "/etc/systemd/system-preset/10-eksnode.preset"

func content(t *testing.T, h *host.Host, name string) string {
	t.Helper()
	text, err := h.Content(name)
	require.NoError(t, err)
	return string(text)
}

func manifestOf(t *testing.T, h *host.Host) *manifest.Manifest {
	t.Helper()
	m, err := manifest.Load(h)
	require.NoError(t, err)
	return m
}

func TestFirstBootIsInstalledAndRemoved(t *testing.T) {
	h, d, _, spec := scene(t)
	provision(t, h, d, spec)
	for _, name := range bootPaths {
		there, err := h.Exists(name)
		require.NoError(t, err)
		assert.True(t, there, "%s exists and is no dangling link", name)
		assert.True(t, recorded(manifestOf(t, h), name), "%s is in the manifest", name)
	}
	assert.Equal(t, []manifest.Unit{
		{Name: "containerd.service"}, {Name: "eksnode-config.service", Enabled: true}, {Name: "eksnode-network.service", Enabled: true},
		{Name: "eksnode-run.service", Enabled: true}, {Name: "kubelet.service"},
	}, manifestOf(t, h).Units)
	assert.Contains(t, content(t, h, presetPath), "disable kubelet.service\n")
	assert.Contains(t, content(t, h, presetPath), "enable eksnode-run.service\n")
	assert.Contains(t, content(t, h, "/usr/lib/systemd/system/kubelet.service"), "\nExecStart=/usr/bin/kubelet $NODEADM_KUBELET_ARGS $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n")

	const edited = "/etc/eks/bootstrap.sh"
	require.NoError(t, h.Files.WriteFile(edited, []byte("#!/bin/sh\n"), host.Attributes{Mode: 0o755}))
	spec.Bootstrap = "none"
	provision(t, h, d, spec)
	for _, name := range bootPaths {
		_, err := h.Files.Lstat(name)
		assert.Equal(t, name == edited, err == nil, "%s: changed files stay, the others are removed", name)
		assert.False(t, recorded(manifestOf(t, h), name), name)
	}
	assert.NotContains(t, content(t, h, presetPath), "enable")
	assert.Empty(t, pending(t, h, d, spec))
	assert.Len(t, manifestOf(t, h).Units, 2)
}

func TestAnotherFirstBootIsNotReplaced(t *testing.T) {
	h, d, _, spec := scene(t)
	require.NoError(t, h.Files.WriteFile("/etc/eks/bootstrap.sh", []byte("#!/bin/bash\nset -o pipefail\n"), host.Attributes{Mode: 0o755}))
	require.NoError(t, h.Files.WriteFile("/usr/bin/nodeadm", []byte("ELF"), host.Attributes{Mode: 0o755}))
	_, err := apply(t, h, d, spec)
	const why = ` belongs to another first boot: set bootstrap = "none" to keep that first boot, or remove the file`
	require.ErrorContains(t, err, "/etc/eks/bootstrap.sh"+why)
	require.ErrorContains(t, err, "/usr/bin/nodeadm"+why)
	assert.Equal(t, "#!/bin/bash\nset -o pipefail\n", content(t, h, "/etc/eks/bootstrap.sh"))
	assert.Equal(t, "ELF", content(t, h, "/usr/bin/nodeadm"))

	spec.Bootstrap = "none"
	provision(t, h, d, spec)
	assert.Equal(t, "ELF", content(t, h, "/usr/bin/nodeadm"))
}

func TestAnotherAuthenticatorStays(t *testing.T) {
	for _, name := range []string{"/usr/local/bin/aws-iam-authenticator", "/usr/bin/aws-iam-authenticator"} {
		h, d, _, spec := scene(t)
		require.NoError(t, h.Files.WriteFile(name, []byte("ELF"), host.Attributes{Mode: 0o755}))
		provision(t, h, d, spec)
		assert.Equal(t, "ELF", content(t, h, name))
		assert.False(t, recorded(manifestOf(t, h), "/usr/bin/aws-iam-authenticator"))
		assert.Empty(t, pending(t, h, d, spec))
	}
}

// The next provision finishes one that was killed before it wrote the manifest.
func TestAFirstBootWithoutItsManifest(t *testing.T) {
	h, d, _, spec := scene(t)
	n := nodeOf(t, "debian", spec)
	actions, err := n.planBoot(h, nil)
	require.NoError(t, err)
	for _, a := range actions {
		require.NoError(t, a.Do(t.Context(), nil))
	}
	assert.NotContains(t, pending(t, h, d, spec), "first-boot")
	provision(t, h, d, spec)
}

func TestFirstBootWithAReadOnlyUsr(t *testing.T) {
	n := nodeOf(t, "flatcar", Spec{})
	actions, err := n.planBoot(bare(t, n.distro), nil)
	require.NoError(t, err)
	for _, a := range actions {
		target, _, _ := strings.Cut(a.Target, " ")
		assert.True(t, a.Verb == plan.Mkdir || strings.HasPrefix(target, "/etc/") || strings.HasPrefix(target, "/opt/bin/"), a.Target)
	}
}
