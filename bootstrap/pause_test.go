//go:build linux

package bootstrap

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/internal/templates"
)

const (
	ownPause   = "localhost/kubernetes/pause:latest"
	theirPause = "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5"
)

// pins puts the archive of a pause image into the image, as provisioning and Amazon's
// images do.
func pins(t *testing.T, h *host.Host) {
	t.Helper()
	require.NoError(t, h.Files.WriteFile(machine.PauseArchive, []byte("x"), host.Attributes{Mode: 0o644}))
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
		"NodeConfig":                             {false, nil, theirPause},
		"NodeConfig, its own":                    {true, nil, ownPause},
		"bootstrap.sh":                           {false, []string{}, theirPause},
		"bootstrap.sh, its own":                  {true, []string{}, ownPause},
		"bootstrap.sh, its own, default version": {true, []string{"--pause-container-version", "3.5"}, ownPause},
		"bootstrap.sh, its own, another version": {true, []string{"--pause-container-version", "3.9"}, "602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.9"},
		"bootstrap.sh, its own, another account": {true, []string{"--pause-container-account", "123456789012"}, "123456789012.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5"},
		"bootstrap.sh, account and version": {true, []string{"--pause-container-account", "123456789012", "--pause-container-version", "3.9"},
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
			text, err := h.Content(render.ContainerdConfig)
			require.NoError(t, err)
			assert.Contains(t, string(text), "sandbox = '"+c.want+"'")
			if c.args == nil {
				return
			}
			require.NoError(t, h.Files.WriteFile(templates.ContainerdConfig, []byte("sandbox_image = \"SANDBOX_IMAGE\" # mine\n"), host.Attributes{Mode: 0o644}))
			w.call(t, h, given("a", c.args...)...)
			text, err = h.Content(render.ContainerdConfig)
			require.NoError(t, err)
			assert.Equal(t, "sandbox_image = \""+c.want+"\" # mine\n", string(text))
		})
	}
}

// On a machine image with its own pause image, bootstrap.sh pulls nothing. An image
// that is missing in containerd is imported from the archive.
func TestBootstrapShDoesNotPullAnInstalledPauseImage(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		pins(t, h)
		w.run(t, h, given("a")...)
		all := calls(t)
		assert.Contains(t, all, "ctr --namespace k8s.io images import "+machine.PauseArchive)
		for _, one := range all {
			assert.NotContains(t, one, "images pull")
		}
		w.run(t, h, given("a")...)
		for _, one := range calls(t) {
			assert.NotContains(t, one, "images import", "containerd has the image")
		}
	})
}

// First boot completes an interrupted step for the pause image: it removes the
// registry's credentials and pins an image that was imported but not pinned. The
// kubelet would remove an image without a pin.
func TestInterruptedPauseImageStepIsCompleted(t *testing.T) {
	live(t, func(t *testing.T, h *host.Host, w *world) {
		boot := func(image string) {
			require.NoError(t, h.Files.WriteFile(imageList, []byte(image+"\n"), host.Attributes{Mode: 0o644}))
			require.NoError(t, h.Files.WriteFile("/run/eksnode/registries/registry/hosts.toml", []byte("authorization = \"Basic secret\"\n"), host.Attributes{Mode: 0o600}))
			w.run(t, h, given("a")...)
			there, err := h.Exists("/run/eksnode/registries")
			require.NoError(t, err)
			assert.False(t, there, "credentials must not stay")
		}
		boot(theirPause)
		assert.NotContains(t, strings.Join(calls(t), "\n"), "images pull")
		pins(t, h)
		boot(ownPause)
		assert.Contains(t, calls(t), "ctr --namespace k8s.io images label "+ownPause+" io.cri-containerd.pinned=pinned")
		w.run(t, h, given("a")...)
		assert.Empty(t, calls(t), "nothing is left to do")
	})
}

// run applies all items of a call of bootstrap.sh.
func (w *world) run(t *testing.T, h *host.Host, args ...string) {
	t.Helper()
	a, err := arguments.Parse(args)
	require.NoError(t, err)
	n, err := w.FromArguments(t.Context(), h, a)
	require.NoError(t, err)
	apply(t, h, w, n, Selection{})
}
