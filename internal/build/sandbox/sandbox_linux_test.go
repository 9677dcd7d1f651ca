package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// TestMain runs the script of a test when it is the process inside.
func TestMain(m *testing.M) {
	if os.Args[0] == "/attack" {
		attack()
		return
	}
	if !Inside() {
		os.Exit(m.Run())
	}
	var out []byte
	err := Enter(false)
	if err == nil {
		cmd := exec.CommandContext(context.Background(), "/bin/busybox", "sh")
		cmd.Stdin = os.Stdin
		out, err = cmd.CombinedOutput()
	}
	fmt.Printf("%s%v\n", out, err)
	os.Exit(0)
}

// makeRoot makes a root with busybox as its only program.
func makeRoot(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	testkit.Busybox(t, filepath.Join(root, "bin"))
	hosttest.Lay(t, root, map[string]string{"proc/": "", "sys/": "", "dev/": "", "run/": "", "tmp/": "",
		"etc/resolv.conf": "-> ../run/resolve/resolv.conf"})
	return root
}

// run runs a script of busybox in the sandbox.
func run(ctx context.Context, t *testing.T, root, script string) string {
	t.Helper()
	out, err := Run(ctx, root, []byte(script), os.Stderr)
	require.NoError(t, err)
	return string(out)
}

func TestProgramsInsideHaveWhatPackagesNeed(t *testing.T) {
	root := makeRoot(t)
	resolver := testkit.Content(t, resolvConf)
	host, err := os.Hostname()
	require.NoError(t, err)
	said := run(t.Context(), t, root, `PATH=/bin
b() { busybox "$@" || echo "$* fails"; }
b hostname; b cat /proc/1/comm; b ls /dev; b cat /etc/resolv.conf
echo text >/dev/null; b head -c 1 /dev/urandom >/tmp/a; b mkdir /run/b; b chown 7:7 /tmp/a; b stat -c %u /tmp/a
b ls -d /sys/kernel; echo kept >/left; b grep ^CapBnd: /proc/self/status
`)
	assert.NotContains(t, said, "fails")
	// chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service,
	// sys_chroot, audit_write, setfcap
	assert.Contains(t, said, "CapBnd:\t00000000a00405fb\n")
	assert.Contains(t, said, "localhost\n")
	assert.Contains(t, said, "fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\nurandom\nzero\n"+resolver+"7\n/sys/kernel\n")
	for _, empty := range []string{"proc", "sys", "dev", "run", "tmp"} {
		assert.Empty(t, testkit.Names(t, filepath.Join(root, empty)), empty)
	}
	assert.FileExists(t, filepath.Join(root, "left"))
	now, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, host, now)
}

func TestARootWithoutProcIsRefused(t *testing.T) {
	root := makeRoot(t)
	require.NoError(t, os.Remove(filepath.Join(root, "proc")))
	assert.Equal(t, "preparing the sandbox in "+root+": the root has no folder /proc; name the root of a whole "+
		"system, or make the folder\n", run(t.Context(), t, root, ""))
}

func TestACommandWithoutFilesIsRefused(t *testing.T) {
	_, err := received(nil)
	assert.EqualError(t, err, "reading the files of a command: 0 messages came with the command, not 1")
}

func TestASandboxEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	root := makeRoot(t)
	done := make(chan error, 1)
	go func() {
		_, err := Run(ctx, root, []byte("busybox touch /begun; exec busybox sleep 3600"), os.Stderr)
		done <- err
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(root, "begun"))
		return err == nil
	}, time.Minute, time.Millisecond)
	cancel()
	require.Error(t, <-done)
	assert.NotContains(t, testkit.Content(t, "/proc/self/mountinfo"), root)
}

// Whatever the root has in its place, programs see the host's resolver. The root stays as it
// is, also when an earlier run was killed.
func TestAnyRootShowsTheHostsResolver(t *testing.T) {
	resolver := testkit.Content(t, resolvConf)
	for name, place := range map[string]func(place string) error{
		"nothing":  func(string) error { return nil },
		"file":     func(place string) error { return os.WriteFile(place, []byte("own\n"), 0o644) },
		"stub":     func(place string) error { return os.Symlink("../run/systemd/resolve/stub-resolv.conf", place) },
		"absolute": func(place string) error { return os.Symlink("/var/run/NetworkManager/resolv.conf", place) },
		"no file":  func(place string) error { return os.Symlink("/etc/resolvconf/run/resolv.conf", place) },
		"loop":     func(place string) error { return os.Symlink("resolv.conf", place) },
		"static": func(place string) error {
			return errors.Join(os.WriteFile(place+".static", []byte("own\n"), 0o644), os.Symlink("resolv.conf.static", place))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := makeRoot(t)
			etc := filepath.Join(root, "etc")
			require.NoError(t, os.Remove(filepath.Join(etc, "resolv.conf")))
			require.NoError(t, place(filepath.Join(etc, "resolv.conf")))
			before := testkit.Names(t, etc)
			_, err := start(t.Context(), root, mark, nil, os.Stderr) // as Run leaves it when killed
			require.NoError(t, err)
			assert.Equal(t, resolver+"<nil>\n", run(t.Context(), t, root, "busybox cat /etc/resolv.conf"))
			assert.Equal(t, before, testkit.Names(t, etc))
			assert.NoDirExists(t, filepath.Join(root, "var"))
			for _, file := range testkit.Glob(t, filepath.Join(etc, "*.static")) {
				assert.Equal(t, "own\n", testkit.Content(t, file))
			}
		})
	}
}
