package bootunits

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func layout() Layout {
	return Layout{Command: "/usr/bin/eksnode", Commands: "/usr/bin", Units: "/usr/lib/systemd/system"}
}

func TestFilesAreComplete(t *testing.T) {
	files, links := Files(layout())
	paths, targets := map[string]bool{}, map[string]string{}
	for _, f := range files {
		assert.False(t, paths[f.Path], f.Path)
		paths[f.Path] = true
		assert.NotContains(t, string(f.Content), "{", f.Path)
		assert.NotEmpty(t, f.Content, f.Path)
		assert.NotEmpty(t, f.Why, f.Path)
	}
	for _, l := range links {
		assert.False(t, paths[l.Path], l.Path)
		assert.NotEmpty(t, l.Why, l.Path)
		targets[l.Path] = l.To
	}
	assert.Equal(t, map[string]string{
		"/usr/bin/nodeadm": "eksnode",
		"/etc/systemd/system/multi-user.target.wants/eksnode-network.service": "/usr/lib/systemd/system/eksnode-network.service",
		"/etc/systemd/system/multi-user.target.wants/eksnode-config.service":  "/usr/lib/systemd/system/eksnode-config.service",
		"/etc/systemd/system/multi-user.target.wants/eksnode-run.service":     "/usr/lib/systemd/system/eksnode-run.service",
	}, targets)
	assert.Equal(t, []string{"enable eksnode-network.service", "enable eksnode-config.service", "enable eksnode-run.service"}, Preset())
}

func TestAReadOnlyUsr(t *testing.T) {
	files, links := Files(Layout{Command: "/opt/eksnode/bin/eksnode", Commands: "/opt/bin", Units: "/etc/systemd/system"})
	assert.Equal(t, plan.SymbolicLink{Path: "/opt/bin/nodeadm", To: "/opt/eksnode/bin/eksnode", Why: links[0].Why}, links[0])
	for _, f := range files {
		assert.False(t, strings.HasPrefix(f.Path, "/usr"), f.Path)
	}
	for _, l := range links {
		assert.False(t, strings.HasPrefix(l.Path, "/usr"), l.Path)
	}
}

// systemd itself reads the units, in a separate folder.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	root := t.TempDir()
	command := filepath.Join(root, "eksnode")
	require.NoError(t, os.WriteFile(command, []byte("#!/bin/sh\n"), 0o755))
	var names []string
	files, _ := Files(Layout{Command: command, Commands: root, Units: root})
	for _, f := range files {
		if filepath.Dir(f.Path) == root {
			require.NoError(t, os.WriteFile(f.Path, f.Content, 0o644))
			names = append(names, f.Path)
		}
	}
	require.Len(t, names, 3)
	out := testkit.Run(t, "systemd-analyze", append([]string{"verify", "--man=no"}, names...)...)
	for _, line := range strings.Split(out, "\n") {
		assert.NotContains(t, line, "eksnode", line)
	}
}

// The order of the units in a boot. Distributions place cloud-init differently.
func TestTheOrderOfABoot(t *testing.T) {
	units := map[string]string{}
	files, _ := Files(layout())
	for _, f := range files {
		units[filepath.Base(f.Path)] = string(f.Content)
	}
	for unit, lines := range map[string][]string{
		"eksnode-network.service": {"DefaultDependencies=no", "After=local-fs.target systemd-udevd.service systemd-networkd.service NetworkManager.service wickedd.service wicked.service networking.service",
			"Before=systemd-networkd-wait-online.service NetworkManager-wait-online.service network-online.target", "ExecStart=/usr/bin/eksnode boot-hook"},
		"eksnode-config.service": {"After=network-online.target eksnode-network.service", "Before=cloud-final.service containerd.service kubelet.service",
			"ExecStart=/usr/bin/eksnode init --boot --skip run --config-cache /run/eksnode/instance.json --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/"},
		"eksnode-run.service": {"DefaultDependencies=no", "After=sysinit.target basic.target network-online.target eksnode-config.service cloud-final.service",
			"ExecStart=/usr/bin/eksnode init --boot --config-cache /run/eksnode/instance.json --config-source imds://user-data --config-source file:///etc/eks/nodeadm.d/"},
	} {
		for _, line := range lines {
			assert.Contains(t, units[unit], "\n"+line+"\n", unit)
		}
	}
}

func TestTheScriptPassesItsArguments(t *testing.T) {
	root := t.TempDir()
	command := filepath.Join(root, "eksnode")
	require.NoError(t, os.WriteFile(command, []byte("#!/bin/sh\nprintf '<%s>' \"$@\"\n"), 0o755))
	script := filepath.Join(root, "bootstrap.sh")
	files, _ := Files(Layout{Command: command, Commands: root, Units: root})
	require.Equal(t, "/etc/eks/bootstrap.sh", files[0].Path)
	require.NoError(t, os.WriteFile(script, files[0].Content, files[0].Mode))
	for _, shell := range [][]string{{script}, {"sh", script}, {"bash", "-xe", script}} {
		cmd := exec.Command(shell[0], append(shell[1:], "my-cluster", "--kubelet-extra-args", "--node-labels=a=b --v=2", "")...)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "<bootstrap.sh><my-cluster><--kubelet-extra-args><--node-labels=a=b --v=2><>", string(out))
	}
}
