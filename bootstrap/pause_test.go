//go:build linux

package bootstrap

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/containerd"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

const ownPause = "localhost/kubernetes/pause:latest"

// pins puts the archive of a pause image into the image, as provisioning and Amazon's
// images do.
func pins(t *testing.T, h *host.Host) {
	t.Helper()
	require.NoError(t, h.Files.WriteFile(containerd.PauseArchive, []byte("x"), host.Attributes{Mode: 0o644}))
}

// First boot configures containerd with the machine image's own pause image, for both
// contracts and for built-in and user configurations, unless the call sets another
// image.
func TestPauseImageInContainerdsConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		own  bool
		args []string // nil is a NodeConfig
		want string
	}{
		"NodeConfig":                             {false, nil, image},
		"NodeConfig, its own":                    {true, nil, ownPause},
		"bootstrap.sh":                           {false, []string{}, image},
		"bootstrap.sh, its own":                  {true, []string{}, ownPause},
		"bootstrap.sh, its own, default version": {true, []string{"--pause-container-version", "3.5"}, ownPause},
		"bootstrap.sh, its own, another version": {true, []string{"--pause-container-version", "3.9"},
			"602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.9"},
		"bootstrap.sh, its own, another account": {true, []string{"--pause-container-account", "123456789012"},
			"123456789012.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5"},
		"bootstrap.sh, account and version": {true,
			[]string{"--pause-container-account", "123456789012", "--pause-container-version", "3.9"},
			"123456789012.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.9"},
	} {
		t.Run(name, func(t *testing.T) {
			h, w := mounted(t), surround(t, imdstest.Typical())
			if c.own {
				pins(t, h)
			}
			if c.args == nil {
				w.join(t, h, config(t, "a", ""))
			} else {
				w.call(t, h, given("a", c.args...)...)
			}
			assert.Contains(t, contentOf(t, h, render.ContainerdConfig), "sandbox = '"+c.want+"'")
			if c.args == nil {
				return
			}
			require.NoError(t, h.Files.WriteFile(templates.ContainerdConfig,
				[]byte("sandbox_image = \"SANDBOX_IMAGE\" # mine\n"), host.Attributes{Mode: 0o644}))
			w.call(t, h, given("a", c.args...)...)
			assert.Equal(t, "sandbox_image = \""+c.want+"\" # mine\n", contentOf(t, h, render.ContainerdConfig))
		})
	}
}

func object(t *testing.T, h *host.Host, name string) map[string]any {
	t.Helper()
	return testkit.JSON[map[string]any](t, contentOf(t, h, name))
}

// After bootstrap.sh, eksctl's scripts merge the user's settings into
// kubelet-config.json and restart the kubelet. Source: eksctl,
// pkg/nodebootstrap/assets/scripts/bootstrap.al2.sh.
func TestKubeletConfigurationMayBeEditedAfterBootstrapSh(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	call := given("a", "--kubelet-extra-args", "--node-labels=a=b")
	w.call(t, h, call...)
	has(t, h, render.KubeletEnvironment, "--config=/etc/kubernetes/kubelet/kubelet-config.json ")
	has(t, h, render.ScriptArguments,
		"\n[Service]\nEnvironment='KUBELET_ARGS=--node-ip=10.0.1.2 --pod-infra-container-image="+image+
			" --v=2 --hostname-override=ip-10-0-1-2.eu-west-1.compute.internal --cloud-provider=external'\n")
	has(t, h, render.ScriptExtraArguments, "\n[Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=a=b'\n")
	assert.False(t, there(t, h, render.KubeletConfig), "there is one configuration")

	config := object(t, h, templates.KubeletConfig)
	assert.Equal(t, []any{"172.20.0.10"}, config["clusterDNS"])
	config["registryPullQPS"], config["maxPods"] = 20, 17
	text, err := json.Marshal(config)
	require.NoError(t, err)
	lay(t, h, map[string]string{templates.KubeletConfig: string(text)})
	w.log = nil
	w.call(t, h, append(call, "--use-max-pods", "false")...)
	again := object(t, h, templates.KubeletConfig)
	assert.InDelta(t, 20, again["registryPullQPS"], 0)
	assert.InDelta(t, 17, again["maxPods"], 0)
	assert.Empty(t, w.said("warning: "))

	before := tree(t, h, written...)
	w.call(t, h, append(call, "--use-max-pods", "false")...)
	assert.Equal(t, before, tree(t, h, written...))
}

// A call without extra arguments removes those of an earlier call. A user's drop-in of
// the same name stays.
func TestExtraArgumentsDropInFollowsTheCall(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	w.call(t, h, given("a", "--kubelet-extra-args", "--v=4")...)
	w.call(t, h, given("a")...)
	assert.False(t, there(t, h, render.ScriptExtraArguments))
	const own = "[Service]\nEnvironment='KUBELET_EXTRA_ARGS=--v=9'\n# mine\n"
	lay(t, h, map[string]string{render.ScriptExtraArguments: own})
	w.call(t, h, given("a")...)
	has(t, h, render.ScriptExtraArguments, own)
}

// systemd reads the user's words from the drop-in, as from the file of Amazon Linux 2's
// script.
func TestValuesInDropInsAreEscaped(t *testing.T) {
	for given, want := range map[string]string{
		"--eviction-hard=memory.available<5%,nodefs.available<10%": "--eviction-hard=memory.available<5%,nodefs.available<10%",
		"--node-labels=a=5%host":                                   "--node-labels=a=5%%host",
		"--eviction-hard=memory.available<5%%":                     "--eviction-hard=memory.available<5%%",
		"--node-labels='a=b c'":                                    `--node-labels=\'a=b c\'`,
		`--node-labels="a=b"`:                                      `--node-labels="a=b"`,
		`--node-labels=\"a=b\"`:                                    `--node-labels=\"a=b\"`,
	} {
		h, w := mounted(t), surround(t, imdstest.Typical())
		w.call(t, h, "c", "--apiserver-endpoint", "https://a", "--b64-cluster-ca", "Y2E=", "--kubelet-extra-args",
			given)
		has(t, h, render.ScriptExtraArguments, "\nEnvironment='KUBELET_EXTRA_ARGS="+want+"'\n")
		assert.Equal(t, 3, strings.Count(contentOf(t, h, render.ScriptExtraArguments), "\n"))
	}
}
