package provisioner

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// A killed agent leaves the policy that keeps services from starting, and half
// installed packages that no step needs. The next provision repairs both without a
// repository.
func TestTheNextProvisionFinishesTheInstallation(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		deb{name: "eksnode-dependency", version: "1"}.build(t, h, "/srv/dependency.deb")
		_, err := h.Run(t.Context(), host.Command{Argv: []string{"dpkg", "--unpack", "/srv/dependency.deb"}})
		require.NoError(t, err)
		const policy = "/usr/sbin/policy-rc.d"
		require.NoError(t, os.WriteFile(policy, []byte("#!/bin/sh\n# eksnode: no service starts while packages are installed\nexit 101\n"), 0o755))

		d := distroOf(t, "debian")
		d.Packages = map[distros.Role][]string{distros.Trust: {"dpkg"}} // no package is missing
		n := nodeFor(t, Spec{KubernetesVersion: "1.34.4"}, d, "amd64")
		answer, err := pick(n, "packages")[0].Plan(t.Context(), h)
		require.NoError(t, err)
		require.Len(t, answer.Actions, 1)
		assert.Equal(t, plan.Install, answer.Actions[0].Verb)
		assert.Equal(t, "eksnode-dependency", answer.Actions[0].Target)
		assert.Equal(t, "an interrupted run left this package half installed", answer.Actions[0].Reason)
		require.NoError(t, settle(t, h, pick(n, "packages")...))

		_, err = os.Lstat(policy)
		require.ErrorIs(t, err, os.ErrNotExist)
		have, err := d.PackageManager.Installed(t.Context(), h, []string{"eksnode-dependency"})
		require.NoError(t, err)
		assert.Equal(t, map[string]string{"eksnode-dependency": "1"}, have)
	})
}

// A run that was killed while dpkg ran triggers has installed all packages, but
// triggers are pending.
func TestPendingTriggersAreFinished(t *testing.T) {
	h, d, _, spec := scene(t)
	provision(t, h, d, spec)
	status, err := h.Content("/var/lib/dpkg/status")
	require.NoError(t, err)
	status = append(status, "Package: libc-bin\nStatus: install ok triggers-pending\nVersion: 2\nTriggers-Pending: ldconfig\n\n"...)
	require.NoError(t, h.Files.WriteFile("/var/lib/dpkg/status", status, host.Attributes{Mode: 0o644}))
	assert.Equal(t, "packages\n  install libc-bin\n    an interrupted run left this package half installed\n", pending(t, h, d, spec))
}
