package provisioner

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/e2e/livetest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// deb is a package that a test makes.
type deb struct {
	name, version string
	files         map[string]string
}

// serviceText is a unit that starts at boot.
const serviceText = "[Service]\nExecStart=/bin/true\n\n[Install]\nWantedBy=multi-user.target\n"

// build makes the file of a package, and returns what an index of packages says about it.
func (d deb) build(t *testing.T, h *host.Host, file string) string {
	t.Helper()
	tree := filepath.Join(t.TempDir(), d.name)
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\n"+
		"Maintainer: nobody <nobody@example.com>\nDescription: made for a test\n", d.name, d.version)
	hosttest.Lay(t, tree, map[string]string{"DEBIAN/control": control})
	hosttest.Lay(t, tree, d.files)
	build := []string{"dpkg-deb", "--root-owner-group", "--build", tree, file}
	for _, argv := range [][]string{{"chmod", "-R", "0755", tree}, build} {
		_, err := h.Run(t.Context(), host.Command{Argv: argv})
		require.NoError(t, err)
	}
	content := testkit.Content(t, file)
	return fmt.Sprintf("%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, filepath.Base(file), len(content),
		sha256.Sum256([]byte(content)))
}

// publish makes a repository of packages beside the machine's.
func publish(t *testing.T, h *host.Host, debs ...deb) {
	t.Helper()
	const folder = "/srv/packages"
	require.NoError(t, os.MkdirAll(folder, 0o755))
	var index strings.Builder
	for _, d := range debs {
		index.WriteString(d.build(t, h, folder+"/"+d.name+"_"+d.version+".deb"))
	}
	require.NoError(t, os.WriteFile(folder+"/Packages", []byte(index.String()), 0o644))
	require.NoError(t, os.WriteFile("/etc/apt/sources.list", []byte("deb [trusted=yes] file:"+folder+" ./\n"), 0o644))
}

func alone(t *testing.T) {
	t.Helper()
	for _, name := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d", "/var/lib/apt/lists"} {
		require.NoError(t, os.RemoveAll(name))
	}
	require.NoError(t, os.MkdirAll("/etc/apt/sources.list.d", 0o755))
}

// bareDebian is Debian without the packages of every node.
func bareDebian(t *testing.T) distros.Distro {
	t.Helper()
	d := distroOf(t, "debian")
	d.Packages = map[distros.Role][]string{distros.Trust: {}}
	return d
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
				publish(t, h, deb{"amazon-ssm-agent", "1", map[string]string{"lib/systemd/system/" + unit: serviceText}})
				n := nodeFor(t, Spec{KubernetesVersion: "1.34.4", Agents: []string{"ssm"}}, bareDebian(t), "amd64")
				err := settle(t, h, pick(n, "packages", "system")...)
				if wrong != "" {
					require.ErrorContains(t, err, wrong)
					return
				}
				require.NoError(t, err)
				links, err := h.Enablements(unit)
				require.NoError(t, err)
				assert.Equal(t, []string{"/etc/systemd/system/multi-user.target.wants/" + unit}, links)
			})
		})
	}
}
