package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func shellcheck(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("shellcheck", "-s", "sh", "-S", "warning", "-")
	cmd.Stdin = strings.NewReader("#!/bin/sh -eu\n" + script)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, script)
}

func done(item string, actions ...plan.Action) plan.Outcome {
	return plan.Outcome{Item: item, Phase: item, Status: plan.Done, Actions: actions}
}

// example is what a small provision would have laid down.
func example() *laid {
	return &laid{
		report: plan.Report{Outcomes: []plan.Outcome{
			done("requirements"),
			done("packages", plan.Action{Verb: plan.Run, Target: "apt-get update"}, plan.Action{Verb: plan.Install, Target: "runc socat"}),
			done("directories", plan.Action{Verb: plan.Mkdir, Target: "/etc/eks"}, plan.Action{Verb: plan.Mkdir, Target: "/etc/eks/eksnode"}),
			done("kubelet", plan.Action{Verb: plan.Fetch, Target: "/usr/bin/kubelet"}),
			done("cni-plugins", plan.Action{Verb: plan.Fetch, Target: "/opt/cni/bin"}),
			done("units",
				plan.Action{Verb: plan.Write, Target: "/etc/systemd/system/kubelet.service"},
				plan.Action{Verb: plan.Disable, Target: "containerd.service"},
				plan.Action{Verb: plan.Run, Target: "systemctl daemon-reload"}),
			done("command", plan.Action{Verb: plan.Write, Target: "/usr/bin/eksnode"}),
			done("manifest", plan.Action{Verb: plan.Write, Target: manifest.Path}),
		}},
		manifest: &manifest.Manifest{
			KubernetesVersion: "1.34.4",
			Assets: []manifest.Asset{
				{ID: "kubelet", Version: "1.34.4", Files: []manifest.File{{Path: "/usr/bin/kubelet"}}},
				{ID: "cni-plugins", Version: "1.9.1", Files: []manifest.File{{Path: "/opt/cni/bin/bridge"}}},
			},
			Files: []manifest.File{{Path: "/etc/systemd/system/kubelet.service"}, {Path: "/usr/bin/eksnode"}},
			Units: []manifest.Unit{{Name: "kubelet.service"}},
		},
		contents: map[string]string{"/etc/systemd/system/kubelet.service": "[Service]\nExecStart=kubelet $ARGS\n"},
	}
}

func TestShellSteps(t *testing.T) {
	steps, err := example().shellSteps("http://10.77.0.1:8080", true)
	require.NoError(t, err)
	byName := map[string]string{}
	var names []string
	for _, s := range steps {
		shellcheck(t, s.lines)
		byName[s.name] = s.lines
		names = append(names, s.name)
	}
	assert.Equal(t, []string{"packages", "directories", "kubelet", "cni-plugins", "units"}, names)
	assert.Contains(t, byName["packages"], "apt-get install --yes --no-install-recommends runc socat\n")
	assert.Equal(t, "mkdir -p /etc/eks\nmkdir -p /etc/eks/eksnode\n", byName["directories"])
	assert.Regexp(t, `^curl -fsSL -o /tmp/kubelet\.sha256 http://10\.77\.0\.1:8080/dl\.k8s\.io/release/v1\.34\.4/bin/linux/\w+/kubelet\.sha256
curl -fsSL -o /tmp/kubelet http://10\.77\.0\.1:8080/dl\.k8s\.io/release/v1\.34\.4/bin/linux/\w+/kubelet
echo .* \| sha256sum --quiet -c -
rm /tmp/kubelet\.sha256
chmod 755 /tmp/kubelet
mv /tmp/kubelet /usr/bin/kubelet
$`, byName["kubelet"])
	assert.Contains(t, byName["cni-plugins"], "tar -xzf /tmp/cni-plugins --no-same-owner -C /opt/cni/bin\n")
	assert.Equal(t, `mkdir -p /etc/systemd/system
cat >/etc/systemd/system/kubelet.service <<'END-OF-FILE'
[Service]
ExecStart=kubelet $ARGS
END-OF-FILE
systemctl disable --quiet containerd.service
systemctl daemon-reload
`, byName["units"])

	steps, err = example().shellSteps("http://10.77.0.1:8080", false)
	require.NoError(t, err)
	assert.Equal(t, "directories", steps[0].name)
}

func TestShellStepsOfAnUnknownAction(t *testing.T) {
	l := example()
	l.report.Outcomes = append(l.report.Outcomes, done("swap", plan.Action{Verb: plan.Unmount, Target: "/x"}))
	_, err := l.shellSteps("http://10.77.0.1:8080", false)
	require.EqualError(t, err, `writing a shell provisioner for the step swap: it has an action "unmount" that nobody has said in shell`)
}
