//go:build linux

package rules

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// registeredSnapd is the state of a snapd with a serial number and a login.
const registeredSnapd = `{"data":{"api-download-tokens-secret":"kept","auth":{"last-id":1,` +
	`"users":[{"id":1,"email":"a@example.org","macaroon":"M","store-macaroon":"S","store-discharges":["D"]}],` +
	`"device":{"brand":"canonical","model":"ubuntu","serial":"07b0c1","key-id":"FjG1","session-macaroon":"MDAy"},` +
	`"macaroon-key":"a2V5"},"seeded":true,"snaps":{"core20":{"sequence":[{"name":"core20","revision":"2318"}],` +
	`"current":"2318"}},"big":12345678901234567890},"last-change-id":9007199254740993}`

// A cancelled scrub starts the containerd that it stopped. If containerd does not
// start, that is an error.
func TestACancelledScrubStartsContainerdAgain(t *testing.T) {
	for name, c := range map[string]struct{ start, calls, err string }{
		"started":      {"0", "stop\nstart\n", "context canceled"},
		"not starting": {"4", "stop\nstart\n", "context canceled\nrestoring a temporary change: systemctl start containerd.service: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := t.TempDir()
			calls := filepath.Join(bin, "calls")
			script := "#!/bin/sh\ncase $1 in\nshow) echo ActiveState=active ;;\n*) echo $1 >> " + calls + " ;;\nesac\ntest $1 != start || exit " + c.start + "\n"
			require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			h := hosttest.Live(t)
			ctx, cancel := context.WithCancel(t.Context())
			err := withoutContainerd(ctx, h, func() error { cancel(); return ctx.Err() })
			require.EqualError(t, err, c.err)
			assert.Equal(t, c.calls, testkit.Content(t, calls))
		})
	}
}

// journald sends every line to syslog.socket, and the socket starts rsyslog again
// at once. So a unit is stopped together with the units that start it.
func TestUnitsThatStartAWriterAreStoppedWithIt(t *testing.T) {
	bin := t.TempDir()
	calls := filepath.Join(bin, "calls")
	script := `#!/bin/sh
case "$1 $2 $3" in
"show --property=TriggeredBy rsyslog.service") echo TriggeredBy=syslog.socket other.path ;;
"show --property=TriggeredBy "*) echo TriggeredBy= ;;
*) echo "$@" >> ` + calls + ` ;;
esac
`
	require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	h := hosttest.Live(t)
	for _, unit := range []string{"rsyslog.service", "cron.service"} {
		require.NoError(t, stopUnit(t.Context(), h, unit))
	}
	assert.Equal(t, "stop syslog.socket other.path rsyslog.service\nstop cron.service\n", testkit.Content(t, calls))
}

// FuzzSnapd reads any state. What is left is an object without a registration.
func FuzzSnapd(f *testing.F) {
	f.Add([]byte(registeredSnapd))
	f.Add([]byte(`{"data":{"auth":{"users":null,"device":null}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		left, err := withoutDevice(text)
		if err != nil || left == nil {
			return
		}
		again, err := withoutDevice(left)
		if err != nil || again != nil || !json.Valid(left) {
			t.Fatalf("%q: %q, %q, %v", text, left, again, err)
		}
	})
}

// FuzzNamesCluster reads any file from the folder of NodeConfigs.
func FuzzNamesCluster(f *testing.F) {
	f.Add("kind: NodeConfig\nspec: {cluster: {name: a}}\n---\nkind: NodeConfig\n")
	f.Add("NodeConfig\n&a [*a, *a]")
	f.Add("kind: NodeConfig\nspec: {cluster: x}")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = namesCluster([]byte(text)) })
}

// On the live machine, mounts below a folder are unmounted, the deepest first.
// Mounts may be nested, stacked, and have names that mountinfo(5) writes with \040
// and \012. The sources of bind mounts keep their files.
func TestNestedMountsAreUnmounted(t *testing.T) {
	live := hosttest.Live(t)
	folder, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source := filepath.Join(folder, "source")
	require.NoError(t, os.MkdirAll(filepath.Join(source, "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(source, "secret"), []byte("x"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "kubelet/pods"), 0o755))
	require.NoError(t, os.Symlink("kubelet", filepath.Join(folder, "linked")))
	outer := filepath.Join(folder, "kubelet/pods", "new\nline \\040 x")
	require.NoError(t, os.Mkdir(outer, 0o755))
	var mounted []string
	t.Cleanup(func() {
		for range mounted {
			_ = unix.Unmount(outer+"/deep", unix.MNT_DETACH)
			_ = unix.Unmount(outer, unix.MNT_DETACH) // gone when the test passes
		}
	})
	for _, m := range []struct{ source, at string }{{source, outer}, {source, outer}, {"/etc", outer + "/deep"}} {
		require.NoError(t, unix.Mount(m.source, m.at, "", unix.MS_BIND, ""))
		mounted = append(mounted, m.at)
	}
	etc := testkit.TreeOf(t, "/etc")

	r := rule.Rule{ID: "mounts", Phase: rule.Unmount, Paths: []string{folder + "/linked/**"}, Look: unmountBelow}
	outcomes, err := plan.Apply(t.Context(), live, []plan.Item{item{r}}, nil)
	require.NoError(t, err)
	went := show.Each(outcomes[0].Actions, func(a plan.Action) string { return strings.TrimPrefix(a.Target, folder) })
	at := strings.TrimPrefix(outer, folder+"/kubelet")
	assert.Equal(t, []string{"/linked" + at + "/deep", "/linked" + at, "/linked" + at}, went)
	left, err := live.Files.MountsBelow(folder)
	require.NoError(t, err)
	assert.Empty(t, left)
	assert.FileExists(t, filepath.Join(source, "secret"))
	assert.Equal(t, etc, testkit.TreeOf(t, "/etc"))
}

// FuzzCloudInit reads any texts as cloud-init's configuration, ds-identify's and
// the kernel's arguments: without a panic, and with the same answer twice.
func FuzzCloudInit(f *testing.F) {
	f.Add("cloud_init_modules: [[ssh, always]]\nssh_genkeytypes: []\n", "policy: disabled\n", "GRUB_CMDLINE_LINUX=cloud-init=disabled\n")
	f.Add("cloud_init_modules: x\n", "", "# cloud-init=disabled")
	f.Fuzz(func(t *testing.T, config, identify, arguments string) {
		h := hosttest.Root(t, map[string]string{"etc/cloud/cloud.cfg": config, "etc/cloud/ds-identify.cfg": identify, "etc/default/grub": arguments})
		d := &rule.Draft{Host: h}
		require.Equal(t, cloudInitOff(d), cloudInitOff(d))
		require.NoError(t, d.Err)
	})
}
