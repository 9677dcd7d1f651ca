//go:build e2e

package offline_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// bench is a lab with a mirror of a node's programs, and a folder with a copy of the base
// system.
type bench struct {
	*lab.Lab
	root    string
	options []string
}

func open(t *testing.T) *bench {
	t.Helper()
	return openOn(t, lab.System{})
}

func openOn(t *testing.T, system lab.System) *bench {
	t.Helper()
	b := &bench{Lab: lab.Open(t, 40*time.Minute, machine.Nspawn)}
	b.Use(t, system)
	b.root = b.copied(t, b.Root)
	server := b.ServeMirror(t, b.Port("8080"), lab.Assets(t).Folder, mirror.Options{})
	b.options = []string{"--kubernetes-version", lab.Kubelet, "--source-url", server.URL(), "--allow-http"}
	return b
}

func (b *bench) provision(t *testing.T, more ...string) *exec.Cmd {
	t.Helper()
	return b.Resolving(append([]string{lab.Eksnode(t), "provision", "--root", b.root}, append(b.options, more...)...))
}

// build prepares a build of a disk from a base, with a cache beside the base.
func (b *bench) build(t *testing.T, base string, more ...string) *exec.Cmd {
	t.Helper()
	argv := []string{lab.Eksnode(t), "build", "--base", base, "--cache-folder", filepath.Join(filepath.Dir(base), "cache")}
	return b.Resolving(append(append(argv, b.options...), more...))
}

// eksnode runs the command on the root and returns its output and exit code.
func (b *bench) eksnode(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(b.Ctx, lab.Eksnode(t), append(args, "--root", b.root)...)
	out, _ := cmd.CombinedOutput() // the exit code says more
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs the command on the root, which must succeed.
func (b *bench) must(t *testing.T, args ...string) {
	t.Helper()
	said, code := b.eksnode(t, args...)
	require.Zero(t, code, said)
}

// TestOfflineRoot makes an audited image of a folder, without a machine, and compares it
// with the same provision of a booted machine.
func TestOfflineRoot(t *testing.T) {
	b := open(t)
	for _, k := range []struct{ after, program string }{
		{"requirements", "apt-get"}, {"requirements", "dpkg"}, {after: "packages"}, {after: "kubelet"}, {after: "cni-plugins"}, {after: "units"},
	} {
		t.Run("killed after "+k.after+" "+k.program, func(t *testing.T) { b.killed(t, k.after, k.program) })
	}
	testkit.Output(t, b.provision(t))
	t.Run("the booted machine is equal", b.equal)
	out := testkit.Output(t, b.provision(t))
	assert.Contains(t, out, "DONE: 0 of ")

	resolver, err := os.Readlink(filepath.Join(b.root, "etc/resolv.conf"))
	require.NoError(t, err)
	assert.Equal(t, "../run/systemd/resolve/stub-resolv.conf", resolver)
	for _, empty := range []string{"proc", "sys", "tmp", "etc/machine-id"} {
		assert.Empty(t, testkit.Glob(t, filepath.Join(b.root, empty, "*")))
	}

	t.Run("a chroot", b.chroot)

	b.must(t, "scrub", "--yes")
	b.must(t, "audit")
	lent := []string{"etc/hosts", "etc/machine-id", "etc/resolv.conf"}
	for _, name := range lent {
		require.NoError(t, os.Remove(filepath.Join(b.root, name)))
	}
	testkit.Output(t, b.provision(t, "--packages", "jq"))
	assert.FileExists(t, filepath.Join(b.root, "usr/bin/jq"))
	for _, name := range lent {
		assert.NoFileExists(t, filepath.Join(b.root, name))
	}
}

// killed kills a provision after an item, when a program runs, unless it is empty.
// Everything inside must end with the provision.
func (b *bench) killed(t *testing.T, item, program string) {
	cmd := b.provision(t, "--verbose")
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	progress := bufio.NewScanner(said)
	var all strings.Builder
	for progress.Scan() && !strings.HasPrefix(progress.Text(), "  "+item+" ") {
		fmt.Fprintln(&all, progress.Text())
	}
	require.True(t, strings.HasPrefix(progress.Text(), "  "+item+" "), all.String())
	out, err := exec.CommandContext(b.Ctx, "pgrep", "--parent", strconv.Itoa(cmd.Process.Pid)).Output()
	require.NoError(t, err)
	inside, err := os.Readlink("/proc/" + strings.TrimSpace(string(out)) + "/ns/pid")
	require.NoError(t, err)
	require.NoError(t, machine.PollEvery(b.Ctx, 5*time.Millisecond, func() error {
		if !slices.ContainsFunc(members(t, inside), func(name string) bool { return program == "" || name == program }) {
			return fmt.Errorf("%s does not run", program)
		}
		return nil
	}))
	require.NoError(t, cmd.Process.Kill())
	_, _ = io.Copy(io.Discard, said) // until nobody can write
	require.Error(t, cmd.Wait())
	require.NoError(t, machine.Poll(b.Ctx, func() error {
		if left := members(t, inside); len(left) > 0 {
			return fmt.Errorf("processes of the sandbox live: %v", left)
		}
		return nil
	}))
	assert.NotContains(t, testkit.Content(t, "/proc/self/mountinfo"), b.root)
}

// chroot provisions a second copy of the base system in a chroot, as container builds and
// scripts of image tools do. The image is that of the sandbox.
func (b *bench) chroot(t *testing.T) {
	root := b.copied(t, b.Root)
	testkit.Output(t, b.inside(root, lab.Eksnode(t), append([]string{"provision"}, b.options...)...))
	sandboxed := testkit.Content(t, filepath.Join(b.root, manifest.Path))
	assert.Equal(t, sandboxed, testkit.Content(t, filepath.Join(root, manifest.Path)))
}

func (b *bench) copied(t *testing.T, root string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "root")
	testkit.Run(t, "cp", "--archive", root, to)
	return to
}

// inside prepares a file of the host as a program in a chroot, in the lab's network.
func (b *bench) inside(root, program string, args ...string) *exec.Cmd {
	argv := append([]string{"--mount", "--propagation", "private", "sh", "-ec", `
program=$(realpath "$2"); cd "$0"; mount -t proc proc proc; mount --rbind /dev dev; mount -t tmpfs tmpfs run
resolver=$(chroot . readlink -m /etc/resolv.conf); mkdir -p ".${resolver%/*}"; cp "$1" ".$resolver"
install -m 0755 "$program" run/program; shift 2
exec chroot . /run/program "$@"`, root, b.Resolver, program}, args...)
	return b.Command(b.Ctx, "unshare", argv...)
}

func lines(text string) testkit.Tree {
	all := testkit.Tree{}
	for line := range strings.Lines(text) {
		all[strings.TrimSpace(line)] = ""
	}
	return all
}

// members lists the names of the processes in a PID namespace.
func members(t *testing.T, namespace string) []string {
	t.Helper()
	links := testkit.Glob(t, "/proc/[0-9]*/ns/pid")
	var found []string
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == namespace {
			name, _ := os.ReadFile(strings.TrimSuffix(link, "ns/pid") + "comm") // it may have ended since
			found = append(found, strings.TrimSpace(string(name)))
		}
	}
	return found
}

// equal compares the root with a machine that booted the same base and was provisioned
// there: the manifest, all packages, the links of units, and the node's files.
func (b *bench) equal(t *testing.T) {
	n := b.Start(t, machine.Config{Root: b.Root, InstanceID: "i-booted", ReadyWithin: 2 * time.Minute})
	n.KeepRoot(t, b.Key)
	n.Upload(t, lab.Eksnode(t), "/root/eksnode")
	n.Sh(t, "/root/eksnode provision %s", strings.Join(b.options, " "))
	// GRUB's unit writes grubenv at boot, and netplan caches its modules.
	const state = `cd %[1]s
[ ! -e var/lib/dpkg/status ] ||
  awk '/^Package:/ {name=$2} /^(Status|Version):/ {print name, $0}' var/lib/dpkg/status
[ ! -e var/lib/pacman/local ] || ls var/lib/pacman/local
find etc/systemd -type l -printf '%%p %%l\n'
find etc/eks etc/modules-load.d etc/sysctl.d usr opt boot ! -type d ! -name grubenv ! -path "*/__pycache__/*" -printf '%%p %%m %%U:%%G\n'`
	here, err := exec.CommandContext(b.Ctx, "sh", "-ec", fmt.Sprintf(state, b.root)).Output()
	require.NoError(t, err)
	assert.Empty(t, lines(string(here)).Since(lines(n.Sh(t, state, "/"))))
	booted := testkit.Content(t, filepath.Join(b.root, manifest.Path))
	assert.Equal(t, n.Sh(t, "cat "+manifest.Path), strings.TrimSpace(booted))
}
