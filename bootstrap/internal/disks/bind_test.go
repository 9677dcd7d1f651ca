//go:build linux

package disks

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// The same for the whole plan: a changed mount of the array stops and copies nothing.
func TestChangedArrayKeepsMountedFolders(t *testing.T) {
	d := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: nodeconfig.RAID0}, InstanceID: "i-1"}
	h := instance(t, map[string][]byte{"nvme1n1": ours(), "md127": largeWith(0, "XFSB")}, map[string]string{"nvme1n1": "md127"})
	for _, f := range d.folders() {
		actions, err := bind(h, "/mnt/k8s-disks/0/"+filepath.Base(f.path), f)
		require.NoError(t, err)
		settle(t, h, actions, f.path)
	}
	answer, err := d.Plan(t.Context(), h)
	require.NoError(t, err)
	name := escape("/mnt/k8s-disks/0") + ".mount"
	assert.Equal(t, "write /etc/systemd/system/"+name+"\nrun systemctl daemon-reload\nrun systemctl enable "+name+"\nrun systemctl start "+name, commands(answer.Actions))
}

// An image without the SOCI snapshotter has no service to stop.
func TestMissingServiceIsNotStopped(t *testing.T) {
	h := instance(t, nil, nil)
	m := &move{h: h, from: carried{"/var/lib/soci-snapshotter-grpc", "soci-snapshotter"}, on: "/mnt/0/soci-snapshotter-grpc"}
	require.NoError(t, m.stop(t.Context()), "systemctl must not run in an image root")
}

// moving returns a folder with content and the path of its copy.
func moving(t *testing.T) (*move, string) {
	t.Helper()
	h, err := host.Live()
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "from/below"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "from/below/file"), []byte("old"), 0o640))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "on"), 0o755))
	return &move{h: h, from: carried{filepath.Join(dir, "from"), "test"}, on: filepath.Join(dir, "on")}, dir
}

// The array has the complete folder or none of its files, and existing files stay.
func TestFolderIsCopiedCompletelyAndOnce(t *testing.T) {
	m, dir := moving(t)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "on.part/interrupted"), 0o755))
	require.NoError(t, m.copy(t.Context()))
	assert.Equal(t, "old", testkit.Content(t, filepath.Join(dir, "on/below/file")))
	assert.NoDirExists(t, filepath.Join(dir, "on.part"))
	assert.NoDirExists(t, filepath.Join(dir, "on/interrupted"))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "on/below/file"), []byte("new"), 0o640))
	require.NoError(t, m.copy(t.Context()))
	assert.Equal(t, "new", testkit.Content(t, filepath.Join(dir, "on/below/file")),
		"the array's state is newer than the image's")

	m, dir = moving(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, m.copy(ctx))
	assert.NoDirExists(t, filepath.Join(dir, "on/below"))
}

// A service that was stopped for a copy starts again after the copy fails or is
// cancelled. A service that did not run stays stopped.
func TestServiceRestartsAfterAFailedCopy(t *testing.T) {
	for state, want := range map[string]string{"active": "stop test.service\nstart test.service\n", "inactive": "stop test.service\n"} {
		t.Run(state, func(t *testing.T) {
			m, dir := moving(t)
			bin, calls := filepath.Join(dir, "bin"), filepath.Join(dir, "calls")
			require.NoError(t, os.Mkdir(bin, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte("#!/bin/sh\ncase $1 in\nshow) echo Id=test.service; echo ActiveState="+state+" ;;\n*) echo $* >> "+calls+" ;;\nesac\n"), 0o755))
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			ctx, cancel := context.WithCancel(t.Context())
			require.NoError(t, m.stop(ctx))
			cancel()
			err := m.orStart(plan.Action{Do: func(ctx context.Context, _ plan.Progress) error { return m.copy(ctx) }}).Do(ctx, nil)
			require.ErrorIs(t, err, context.Canceled)
			text := testkit.Content(t, calls)
			assert.Equal(t, want, text)
			assert.Equal(t, 1, strings.Count(text, "stop"))
		})
	}
}
