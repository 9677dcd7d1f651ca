package distros

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// killsDpkg is a maintainer script that kills dpkg, but only on its first run.
const killsDpkg = "test -e /survives || kill -9 $PPID\n"

// dpkg is killed in preinst or postinst, so the package's state is in dpkg's
// journal alone. Finish completes the package although no plan names it again.
func TestAptCompletesInterruptedUnrelatedPackages(t *testing.T) {
	for _, script := range []string{"preinst", "postinst"} {
		t.Run(script, func(t *testing.T) {
			livetest.Run(t, func(t *testing.T, h *host.Host) {
				require.NoError(t, h.Files.Remove(policyPath))
				onlyRepository(t, h, "[trusted=yes]",
					deb{name: "eksnode-base", version: "1", script: script, postinst: killsDpkg},
					deb{name: "eksnode-service", version: "1", extra: "Depends: eksnode-base\n", postinst: "/usr/sbin/policy-rc.d containerd start; echo $? >/policy-says\n"})
				require.NoError(t, APT().Refresh(t.Context(), h))
				require.Error(t, APT().Install(t.Context(), h, []string{"eksnode-service"}))
				// The agent was killed too, and could not remove the policy.
				require.NoError(t, os.WriteFile(policyPath, []byte(policy), 0o755))
				require.NoError(t, os.WriteFile("/usr/sbin/.policy-rc.d.eksnode-0123456789abcdef", []byte("#!"), 0o600))
				require.NoError(t, os.WriteFile("/survives", nil, 0o644))

				names, err := APT().Unfinished(h)
				require.NoError(t, err)
				assert.Contains(t, names, "eksnode-base")
				left, err := APT().Leftover(h)
				require.NoError(t, err)
				assert.Equal(t, []string{"/usr/sbin/.policy-rc.d.eksnode-0123456789abcdef"}, left, "the policy must stay while the killed run's dpkg may still run")

				require.NoError(t, APT().Finish(t.Context(), h))
				assert.NotEmpty(t, versionsOf(t, h, "eksnode-base"))
				names, err = APT().Unfinished(h)
				require.NoError(t, err)
				assert.Empty(t, names)
				_, err = os.Lstat(policyPath)
				require.ErrorIs(t, err, os.ErrNotExist)
				require.NoError(t, APT().Finish(t.Context(), h), "a second Finish must do nothing")
				require.NoError(t, APT().Install(t.Context(), h, []string{"eksnode-service"}))
				assert.Equal(t, "101\n", testkit.Content(t, "/policy-says"))
			})
		})
	}
}

func TestAptNamesPackagesThatItCannotComplete(t *testing.T) {
	livetest.Run(t, func(t *testing.T, h *host.Host) {
		require.NoError(t, h.Files.Remove(policyPath))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-fails", version: "1", postinst: "echo no luck >&2; exit 7\n"},
			deb{name: "eksnode-gone", version: "1", script: "preinst", postinst: killsDpkg})
		require.NoError(t, APT().Refresh(t.Context(), h))
		require.Error(t, APT().Install(t.Context(), h, []string{"eksnode-fails"}))
		require.ErrorContains(t, APT().Finish(t.Context(), h), "finishing packages of an interrupted run: dpkg --configure")
		run(t, h, "dpkg", "--purge", "eksnode-fails")

		require.Error(t, APT().Install(t.Context(), h, []string{"eksnode-gone"}))
		onlyRepository(t, h, "[trusted=yes]", deb{name: "eksnode-other", version: "1"})
		require.ErrorContains(t, APT().Finish(t.Context(), h), "finishing packages of an interrupted run: ")
		names, err := APT().Unfinished(h)
		require.NoError(t, err)
		assert.Equal(t, []string{"eksnode-gone"}, names)
		_, err = os.Lstat(policyPath)
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestUnfinishedPackagesOfAnImageRoot(t *testing.T) {
	const whole = "Package: a\nStatus: install ok installed\n\nPackage: b\nStatus: install ok installed\n"
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"none":                              {map[string]string{"var/lib/dpkg/status": whole, "var/lib/dpkg/updates/tmp.i": "#padding\n"}, nil},
		"no database":                       {nil, nil},
		"in the database":                   {map[string]string{"var/lib/dpkg/status": whole + "\nPackage: c\nStatus: install ok triggers-pending\n"}, []string{"c"}},
		"in the journal":                    {map[string]string{"var/lib/dpkg/status": whole, "var/lib/dpkg/updates/0000": "Package: b\nStatus: install reinstreq half-installed\n"}, []string{"b"}},
		"installed in the journal":          {map[string]string{"var/lib/dpkg/status": whole, "var/lib/dpkg/updates/0000": "Package: b\nStatus: install ok unpacked\n", "var/lib/dpkg/updates/0001": "Package: b\nStatus: install ok installed\n"}, []string{"dpkg's journal"}},
		"removed, with configuration files": {map[string]string{"var/lib/dpkg/status": "Package: d\nStatus: deinstall ok config-files\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := APT().Unfinished(hosttest.Root(t, test.files))
			require.NoError(t, err)
			assert.Equal(t, test.want, names)
		})
	}
	for _, pm := range []PackageManager{DNF(), Zypper(), Pacman(), NoPackageManager()} {
		names, err := pm.Unfinished(hosttest.Root(t, nil))
		require.NoError(t, err)
		assert.Empty(t, names)
		require.NoError(t, pm.Finish(t.Context(), hosttest.Root(t, nil)))
	}
}
