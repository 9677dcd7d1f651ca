package provisioner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func nodeOf(t *testing.T, id string, spec Spec) *node {
	t.Helper()
	spec.KubernetesVersion = "1.34.4"
	return nodeFor(t, spec, distroOf(t, id), "amd64")
}

// Every distribution's settings are written, and a second run changes nothing.
func TestSystemSettingsAreWritten(t *testing.T) {
	for _, d := range distros.All() {
		t.Run(d.ID, func(t *testing.T) {
			d.Quirks = append([]distros.Quirk(nil), d.Quirks...)
			for i := range d.Quirks {
				d.Quirks[i].Removed = nil // removing needs the live machine
			}
			h := bare(t, d)
			n := nodeFor(t, Spec{KubernetesVersion: "1.34.4"}, d, "amd64")
			require.NoError(t, settle(t, h, pick(n, "system")...))
			for _, s := range d.Settings() {
				for _, f := range s.Files {
					assert.Equal(t, f.Content, testkit.Content(t, filepath.Join(h.Root(), f.Path)))
				}
				for _, m := range s.Masked {
					to, err := os.Readlink(filepath.Join(h.Root(), m.Path))
					require.NoError(t, err)
					assert.Equal(t, "/dev/null", to)
				}
			}
		})
	}
}

// Distributions with the same network stack keep routes and addresses off the VPC
// CNI's interfaces in the same way.
func TestEveryNetworkStackLeavesThePodsInterfacesAlone(t *testing.T) {
	content := map[string]string{
		"systemd-networkd":              "ManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no",
		"netplan with systemd-networkd": "ManageForeignRoutes=no\nManageForeignRoutingPolicyRules=no",
		"NetworkManager":                "unmanaged-devices+=driver:veth;",
		"wicked":                        "MACAddressPolicy=none",
		"network-scripts with dhclient": "",
	}
	for _, d := range distros.All() {
		want, known := content[d.Network.Name]
		require.True(t, known, "no expectation for the stack %s", d.Network.Name)
		var all strings.Builder
		for _, f := range d.Network.Files {
			all.WriteString(f.Content)
		}
		assert.Contains(t, all.String(), want, d.ID)
	}
}

func TestMasksReplaceExistingUnits(t *testing.T) {
	masks := []distros.Masked{{Path: "/etc/systemd/system/x.service", Why: "a test"}}
	for name, lay := range map[string]func(file string) error{
		"nothing":      func(string) error { return nil },
		"a unit":       func(file string) error { return os.WriteFile(file, []byte("[Unit]\n"), 0o644) },
		"another link": func(file string) error { return os.Symlink("/usr/lib/systemd/system/x.service", file) },
	} {
		t.Run(name, func(t *testing.T) {
			h := bare(t, nodeOf(t, "debian", Spec{}).distro)
			require.NoError(t, h.Files.MkdirAll("/etc/systemd/system", 0o755))
			require.NoError(t, lay(filepath.Join(h.Root(), masks[0].Path)))
			actions, err := planMasks(h, masks)
			require.NoError(t, err)
			require.Len(t, actions, 1)
			assert.Equal(t, "/etc/systemd/system/x.service to /dev/null", actions[0].Target)
			require.NoError(t, actions[0].Do(t.Context(), nil))
			actions, err = planMasks(h, masks)
			require.NoError(t, err)
			assert.Empty(t, actions)
		})
	}
	h := bare(t, nodeOf(t, "debian", Spec{}).distro)
	require.NoError(t, h.Files.MkdirAll(masks[0].Path, 0o755))
	_, err := planMasks(h, masks)
	require.EqualError(t, err, "linking /etc/systemd/system/x.service: something else is there; remove it")
}

func TestAnInstalledTimeKeeperStartsAtBoot(t *testing.T) {
	h := bare(t, nodeOf(t, "rhel", Spec{}).distro)
	const unit = "/usr/lib/systemd/system/chronyd.service"
	actions, err := planEnabled(h, []string{"chronyd.service"}, "x")
	require.NoError(t, err)
	assert.Empty(t, actions, "otherwise the image keeps its clock")

	require.NoError(t, h.Files.WriteFile(unit, []byte("[Install]\nWantedBy=multi-user.target\n"), host.Attributes{Mode: 0o644}))
	actions, err = planEnabled(h, []string{"chronyd.service"}, "x")
	require.NoError(t, err)
	require.Len(t, actions, 1)
	assert.Equal(t, plan.Enable, actions[0].Verb)

	require.NoError(t, h.Files.MkdirAll("/etc/systemd/system/multi-user.target.wants", 0o755))
	require.NoError(t, h.Files.SymlinkIfPossible(unit, "/etc/systemd/system/multi-user.target.wants/chronyd.service"))
	actions, err = planEnabled(h, []string{"chronyd.service"}, "x")
	require.NoError(t, err)
	assert.Empty(t, actions)
}

func TestLabelsNeedALoadedPolicy(t *testing.T) {
	n := nodeOf(t, "rhel", Spec{})
	answer, err := pick(n, "labels")[0].Plan(t.Context(), bare(t, n.distro))
	require.NoError(t, err)
	assert.Empty(t, answer.Actions)
	assert.Equal(t, "/usr/bin/kubelet", relabeled("Would relabel /usr/bin/kubelet from a to b\n"))
	assert.Equal(t, "/a and 1 more", relabeled("Would relabel /a from x to y\nWould relabel /b from x to y\n"))
}

// A drop-in below /usr may hold containerd up. The image must not start containerd
// before its configuration exists, and a scrub must be able to stop containerd.
func TestContainerdOfASystemExtensionStartsAtFirstBoot(t *testing.T) {
	n := nodeOf(t, "flatcar", Spec{})
	h := bare(t, n.distro)
	// https://github.com/flatcar/scripts/blob/main/build_library/sysext_mangle_containerd-flatcar
	const dropIn = "systemd/system/multi-user.target.d/10-containerd-service.conf"
	require.NoError(t, h.Files.MkdirAll("/usr/lib/systemd/system/multi-user.target.d", 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(h.Root(), "usr/lib", dropIn), []byte("[Unit]\nUpholds=containerd.service\n"), 0o644))
	require.NoError(t, settle(t, h, pick(n, "units", "system")...))
	to, err := h.Files.ReadlinkIfPossible("/etc/" + dropIn)
	require.NoError(t, err)
	assert.Equal(t, "/dev/null", to, "a file of the same name in /etc replaces the drop-in")

	text := content(t, h, "/etc/systemd/system/containerd.service.d/10-eksnode-config.conf")
	assert.Equal(t, "[Service]\nExecStart=\nExecStart=/usr/bin/containerd\n", text,
		"containerd reads /etc/containerd/config.toml by default, and also starts without the file, as an import of images needs")
}

// Where /usr is read-only, a bootstrap.sh of Amazon Linux 2 overwrites the image's
// kubelet unit, so the manifest keeps the unit for a scrub. Its kubeconfig names the
// program where the image has it.
func TestTheManifestKeepsWhatBootstrapScriptsOverwrite(t *testing.T) {
	for id, want := range map[string]struct {
		units   int
		program string
	}{"flatcar": {1, "/opt/bin/aws-iam-authenticator"}, "debian": {0, "/usr/bin/aws-iam-authenticator"}} {
		n := nodeOf(t, id, Spec{})
		m, err := n.describe(t.Context(), bare(t, n.distro))
		require.NoError(t, err)
		units := 0
		for _, template := range m.Templates {
			if template.Path == "/etc/systemd/system/kubelet.service" {
				units++
				assert.Contains(t, template.Content, "ExecStart=/opt/bin/kubelet ")
			}
			if template.Path == "/var/lib/kubelet/kubeconfig" {
				assert.Contains(t, template.Content, "      command: "+want.program+"\n", id)
			}
		}
		assert.Equal(t, want.units, units, id)
	}
}
