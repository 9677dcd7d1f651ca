//go:build linux

package scrub

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// attempt scrubs and returns the status of each rule, except unchanged ones.
func attempt(t *testing.T, h *host.Host, spec Spec) (map[string]plan.Status, error) {
	t.Helper()
	outcomes, err := plan.Apply(t.Context(), h, selected(t, spec, ToScrub), nil)
	ended := map[string]plan.Status{}
	for _, o := range outcomes {
		if o.Status != plan.Unchanged {
			ended[o.Item] = o.Status
		}
	}
	return ended, err
}

func scrubbed(t *testing.T) map[string]string {
	t.Helper()
	h, root := tree(t, joinedNode())
	apply(t, h, Spec{})
	return snapshot(t, root)
}

// On an image root, a mount below the kubelet's folder cannot be unmounted. The
// rule fails without removing anything, and later phases do not run. So the SSH
// keys stay, and logging in still works.
func TestAMountStopsLaterPhases(t *testing.T) {
	h, root := surrounded(t, joinedNode())
	volume := filepath.Join(root, "var/lib/kubelet/pods/uid/volumes/config map")
	require.NoError(t, os.Mkdir(volume, 0o755))
	etc := testkit.TreeOf(t, "/etc")
	shell(t, "mount --bind /etc '"+volume+"'")
	unmount := sync.OnceFunc(func() { shell(t, "umount '"+volume+"'") })
	t.Cleanup(unmount)

	ended, err := attempt(t, h, Spec{})
	require.EqualError(t, err, "kubelet-mounts: unmount /var/lib/kubelet/pods/uid/volumes/config map: unmounting /var/lib/kubelet/pods/uid/volumes/config map: not possible on an image root")
	assert.Equal(t, plan.Skipped, ended["kubelet-pods"])
	assert.Equal(t, plan.Skipped, ended["authorized-keys"])

	ended, err = attempt(t, h, Spec{Skip: []string{"kubelet-mounts"}})
	require.EqualError(t, err, "kubelet-pods: remove /var/lib/kubelet/pods/uid: /var/lib/kubelet/pods/uid/volumes/config map: something is mounted there; unmount it first (files below a mount belong to another file system)")
	assert.Equal(t, plan.Done, ended["cluster-ca"], "other rules of the same phase run")
	assert.Equal(t, plan.Skipped, ended["authorized-keys"])
	assert.FileExists(t, filepath.Join(root, "var/lib/kubelet/pods/uid/volumes/token"))
	assert.FileExists(t, filepath.Join(root, "home/admin/.ssh/authorized_keys"))
	assert.Equal(t, etc, testkit.TreeOf(t, "/etc"))

	unmount()
	require.NoError(t, os.Remove(volume))
	apply(t, h, Spec{})
	assert.Empty(t, diff(scrubbed(t), snapshot(t, root)))
}

// A folder behind a loop of links is an error, not an empty folder.
func TestALoopOfLinksIsAnError(t *testing.T) {
	files := joinedNode()
	files["opt/ours/"] = ""
	h, root := surrounded(t, files)
	require.NoError(t, os.Symlink("log", filepath.Join(root, "opt/ours/log")))
	rules, err := ParseRules("ours.yaml", []byte(goodRules))
	require.NoError(t, err)
	ended, err := attempt(t, h, Spec{Own: rules, Only: []string{"our-logs"}})
	require.EqualError(t, err, "our-logs: stat /opt/ours/log: too many levels of symbolic links")
	assert.Equal(t, plan.Failed, ended["our-logs"])
}

// The error of an immutable file names the file and the remedy. The rest of the
// phase runs, SSH keys stay, and after the remedy the next run completes.
func TestImmutableFilesAreNamedWithTheRemedy(t *testing.T) {
	h, root := surrounded(t, joinedNode())
	locked := filepath.Join(root, "var/lib/kubelet/pki/kubelet-client-2023-04-19.pem")
	shell(t, "chattr +i '"+locked+"'")
	unlock := sync.OnceFunc(func() { shell(t, "chattr -i '"+locked+"'") })
	t.Cleanup(unlock)
	ended, err := attempt(t, h, Spec{})
	require.EqualError(t, err, "kubelet-pki: remove /var/lib/kubelet/pki/kubelet-client-2023-04-19.pem: operation not permitted (immutable or append-only? see lsattr; chattr -ia clears it)")
	assert.Equal(t, plan.Done, ended["cluster-ca"])
	assert.Equal(t, plan.Skipped, ended["authorized-keys"])
	unlock()
	apply(t, h, Spec{})
	assert.Empty(t, diff(scrubbed(t), snapshot(t, root)))
}

// If a folder cannot be listed, the audit's result is "unknown" with the reason.
// Root can list any folder, so the audit runs without capabilities.
func TestFoldersThatCannotBeListedAreUnknown(t *testing.T) {
	for name, c := range map[string]struct{ rule, locked, want string }{
		"below a wildcard": {
			"kubelet-pki", "var/lib/kubelet/pki",
			"kubelet-pki: looking for /var/lib/kubelet/pki/*: open /var/lib/kubelet/pki: permission denied",
		},
		"a parent folder": {
			"cluster-ca", "etc/kubernetes",
			"cluster-ca: looking for /etc/kubernetes/pki/*: stat /etc/kubernetes/pki: permission denied",
		},
		"without a wildcard": {
			"kubelet-manager-state", "var/lib/kubelet",
			"kubelet-manager-state: looking for /var/lib/kubelet/cpu_manager_state: lstat /var/lib/kubelet/cpu_manager_state: permission denied",
		},
		"a home": {
			"authorized-keys", "home",
			"authorized-keys: looking for home folders: stat /home/admin: permission denied",
		},
		"logs":                 {"log-files", "var/log", "log-files: open /var/log: permission denied"},
		"searched for secrets": {"secrets-left", "etc/eks", "secrets-left: open /etc/eks: permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			h, root := tree(t, joinedNode())
			require.NoError(t, os.Chmod(filepath.Join(root, c.locked), 0))
			items := selected(t, Spec{Only: []string{c.rule}}, ToAudit)
			var r plan.Report
			withoutCapabilities(t, func() { r.Audited(plan.Look(t.Context(), h, items, nil)) })
			assert.Equal(t, plan.Unknown, r.Result)
			assert.Equal(t, 2, r.Result.ExitCode())
			assert.Contains(t, r.Error, c.want)
		})
	}
}

// withoutCapabilities calls do on a thread without root's capabilities. The thread
// is not used again.
func withoutCapabilities(t *testing.T, do func()) {
	t.Helper()
	var done sync.WaitGroup
	var err error
	done.Go(func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		if err = unix.Capset(&header, &make([]unix.CapUserData, 2)[0]); err == nil {
			do()
		}
	})
	done.Wait()
	require.NoError(t, err)
}

// Trees that are deeper than PATH_MAX, below a rule's wildcard and in /tmp, are
// removed.
func TestDeepTreesAreRemoved(t *testing.T) {
	h, root := surrounded(t, joinedNode())
	name := strings.Repeat("d", 100)
	for _, top := range []string{"var/lib/kubelet/pods/uid", "tmp"} {
		fd, err := unix.Open(filepath.Join(root, top), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		for range 200 {
			require.NoError(t, unix.Mkdirat(fd, name, 0o755))
			next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			require.NoError(t, unix.Close(fd))
			fd = next
		}
		require.NoError(t, unix.Close(fd))
	}
	for _, p := range planned(t, h, Spec{}, ToScrub) {
		assert.Empty(t, p.Error)
		for _, a := range p.Actions {
			if a.Target == "/var/lib/kubelet/pods/uid" {
				assert.Equal(t, int64(203), a.Entries)
			}
		}
	}
	apply(t, h, Spec{})
	assert.Empty(t, diff(scrubbed(t), snapshot(t, root)))
}

// A program writes into a folder while the scrub removes it. Either the new files
// go too, or the scrub fails and names what is left.
func TestFilesWrittenDuringTheScrubAreNotMissed(t *testing.T) {
	h, root := surrounded(t, joinedNode())
	pods := filepath.Join(root, "var/lib/kubelet/pods")
	const writers = 3
	started := make(chan struct{}, writers)
	var stopped sync.WaitGroup
	for w := range writers {
		stopped.Go(func() {
			for n := range 400 {
				dir := filepath.Join(pods, fmt.Sprint("uid", w), "volumes", fmt.Sprint(n%7))
				_ = os.MkdirAll(dir, 0o755)
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(n)), []byte("late"), 0o600)
				if n == 50 {
					started <- struct{}{}
				}
			}
		})
	}
	for range writers {
		<-started
	}
	_, err := attempt(t, h, Spec{Only: []string{"kubelet-pods"}})
	if err == nil {
		// Files that exist now were written after the verification.
		t.Log("the scrub ended before the writers")
	} else {
		assert.ErrorContains(t, err, "kubelet-pods: ")
		t.Log(err)
	}
	stopped.Wait()
	apply(t, h, Spec{})
	assert.Empty(t, diff(scrubbed(t), snapshot(t, root)))
}

// A circle of links in place of a folder has nothing to scrub. A link to the root
// is refused, and nothing is removed.
func TestLinksInPlaceOfFolders(t *testing.T) {
	files := joinedNode()
	for name := range files {
		for _, dir := range []string{"etc/cni/net.d/", "var/lib/cni/", "var/lib/kubelet/plugins/"} {
			if strings.HasPrefix(name, dir) {
				delete(files, name)
			}
		}
	}
	files["etc/cni/net.d"] = "-> net.d"
	files["var/lib/kubelet/plugins"] = "-> /var/lib/kubelet/device-plugins"
	files["var/lib/kubelet/device-plugins"] = "-> /var/lib/kubelet/plugins"
	h, root := surrounded(t, files)
	apply(t, h, Spec{})
	assert.Equal(t, "-> net.d", snapshot(t, root)["/etc/cni/net.d"])

	require.NoError(t, os.RemoveAll(filepath.Join(root, "var/lib/cni")))
	require.NoError(t, os.Symlink("/", filepath.Join(root, "var/lib/cni")))
	before := testkit.TreeOf(t, root)
	_, err := attempt(t, h, Spec{})
	require.EqualError(t, err, "cni-state: empty /var/lib/cni: remove /var/lib/cni: refusing to empty the machine's root; is it a link? replace it by a folder")
	assert.Equal(t, before, testkit.TreeOf(t, root))
}
