package provisioner

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/distros/livetest"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// publish makes a repository of one package, with a unit, the machine's only one.
func publish(t *testing.T, h *host.Host, name, unit string) {
	t.Helper()
	const folder = "/srv/agents"
	tree := filepath.Join(t.TempDir(), name)
	for _, dir := range []string{folder, filepath.Join(tree, "DEBIAN"), filepath.Join(tree, "lib/systemd/system")} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	control := "Package: " + name + "\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: made for a test\n"
	service := "[Service]\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n"
	require.NoError(t, os.WriteFile(filepath.Join(tree, "DEBIAN/control"), []byte(control), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(tree, "lib/systemd/system", unit), []byte(service), 0o644))
	_, err := h.Run(t.Context(), host.Command{Argv: []string{"dpkg-deb", "--root-owner-group", "--build", tree, folder + "/" + name + ".deb"}})
	require.NoError(t, err)
	deb, err := os.ReadFile(folder + "/" + name + ".deb")
	require.NoError(t, err)
	index := fmt.Sprintf("%sFilename: ./%s.deb\nSize: %d\nSHA256: %x\n\n", control, name, len(deb), sha256.Sum256(deb))
	require.NoError(t, os.WriteFile(folder+"/Packages", []byte(index), 0o644))
	require.NoError(t, os.WriteFile("/etc/apt/sources.list", []byte("deb [trusted=yes] file:"+folder+" ./\n"), 0o644))
}

// An agent's package comes from the machine's repository, by the real apt, and its unit is
// enabled by the real systemctl.
func TestAgentsOfARepositoryStartAtBoot(t *testing.T) {
	for unit, wrong := range map[string]string{
		"amazon-ssm-agent.service": "", "ssm.service": "agents: the package amazon-ssm-agent has no unit amazon-ssm-agent.service",
	} {
		t.Run(unit, func(t *testing.T) {
			livetest.Run(t, func(t *testing.T, h *host.Host) {
				alone(t)
				publish(t, h, "amazon-ssm-agent", unit)
				d, err := distros.ByID("debian")
				require.NoError(t, err)
				d.Packages = map[distros.Role][]string{distros.Trust: {}}
				n, err := newNode(Spec{KubernetesVersion: "1.34.4", Agents: []string{"ssm"}}, d, "amd64")
				require.NoError(t, err)
				items := []plan.Item{n.packages(), n.system()}
				_, err = plan.Apply(t.Context(), h, items, nil)
				if wrong != "" {
					require.ErrorContains(t, err, wrong)
					return
				}
				require.NoError(t, err)
				links, err := h.Enablements(unit)
				require.NoError(t, err)
				assert.Equal(t, []string{"/etc/systemd/system/multi-user.target.wants/" + unit}, links)
				for _, p := range plan.Make(t.Context(), h, items) {
					assert.Empty(t, p.Actions, "a second run changes nothing")
					assert.Empty(t, p.Error)
				}
			})
		})
	}
}
