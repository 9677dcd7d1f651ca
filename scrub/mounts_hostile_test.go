//go:build linux

package scrub

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// mounted runs mount(8) and unmounts at the test's end.
func mounted(t *testing.T, at string, args ...string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(at, 0o755))
	testkit.Run(t, "mount", append(args, at)...)
	t.Cleanup(func() { testkit.Run(t, "umount", at) })
}

// partition mounts a new small file system on a folder and writes files into it.
func partition(t *testing.T, at, kind string, files map[string]string) {
	t.Helper()
	size := "8M"
	if kind == "btrfs" {
		size = "128M"
	}
	testkit.Disk(t, at, size, "", "mkfs."+kind, "-q")
	hosttest.Lay(t, at, files)
}

// result applies the rules, then audits, and returns both reports.
func result(t *testing.T, root string, spec Spec) (scrubbed, audited plan.Report) {
	t.Helper()
	h := lay(t, root, nil)
	outcomes, err := plan.Apply(t.Context(), h, selected(t, spec, ToScrub), nil)
	scrubbed.Applied(outcomes, err)
	audited.Audited(plan.Look(t.Context(), h, selected(t, spec, ToAudit), nil))
	return scrubbed, audited
}

// findings returns the verb, target and reason of each action and finding.
func findings(r plan.Report) []string {
	var list []string
	for _, p := range r.Plan {
		for _, a := range p.Actions {
			list = append(list, string(a.Verb)+" "+a.Target+": "+a.Reason)
		}
		for _, f := range p.Findings {
			list = append(list, "finding "+f.Target+": "+f.Reason)
		}
	}
	return list
}

// A mount from elsewhere is never entered, also below a folder that a rule
// empties. Scrub and audit name the mount.
func TestForeignMountsAreKeptAndNamed(t *testing.T) {
	precious := map[string]string{
		"log": "precious", "old.log.1": "precious", "sub/deep.gz": "precious", "networks/lease": "precious",
		".ssh/authorized_keys": "precious", ".bash_history": "precious", ".aws/credentials": "precious", ".cache/x": "precious",
	}
	type mount func(t *testing.T, outside, at string)
	bind := func(t *testing.T, outside, at string) { mounted(t, at, "--bind", outside) }
	disk := func(t *testing.T, _, at string) { partition(t, at, "ext4", precious) }
	memory := func(t *testing.T, _, at string) {
		mounted(t, at, "-t", "tmpfs", "tmpfs")
		hosttest.Lay(t, at, precious)
	}
	whole := func(t *testing.T, _, at string) {
		first := filepath.Join(t.TempDir(), "data")
		partition(t, first, "ext4", precious)
		mounted(t, at, "--bind", first)
	}
	overlay := func(t *testing.T, outside, at string) {
		w := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(w, "up"), 0o755))
		require.NoError(t, os.Mkdir(filepath.Join(w, "work"), 0o755))
		mounted(t, at, "-t", "overlay", "-o", "lowerdir="+outside+",upperdir="+w+"/up,workdir="+w+"/work", "overlay")
	}
	logs, homes := []string{"log-files"}, []string{"authorized-keys", "histories", "credentials", "home-caches"}
	for name, c := range map[string]struct {
		mount mount
		at    string
		rules []string
	}{
		"bind below logs":             {bind, "/var/log/m", logs},
		"disk below logs":             {disk, "/var/log/m", logs},
		"memory below logs":           {memory, "/var/log/m", logs},
		"overlay below logs":          {overlay, "/var/log/m", logs},
		"deep below logs":             {disk, "/var/log/a/b/m", logs},
		"bind at logs":                {bind, "/var/log", logs},
		"bind at var":                 {bind, "/var", append([]string{"cni-state"}, logs...)},
		"bind at a home":              {bind, "/home/admin", homes},
		"disk at a home":              {disk, "/home/admin", homes},
		"disk at a service's home":    {disk, "/opt/svc home", homes},
		"bind at homes":               {bind, "/home", homes},
		"bind of a disk at homes":     {whole, "/home", homes},
		"bind of a disk at logs":      {whole, "/var/log", logs},
		"bind in a home":              {bind, "/home/admin/.ssh", []string{"authorized-keys"}},
		"disk in a home":              {disk, "/home/admin/.aws", []string{"credentials"}},
		"bind on an emptied folder":   {bind, "/var/lib/cni", []string{"cni-state"}},
		"bind above removed files":    {bind, "/root", homes},
		"bind at temporary files":     {bind, "/tmp", []string{"temporary-files"}},
		"disk within temporary files": {disk, "/tmp/m", []string{"temporary-files"}},
	} {
		t.Run(name, func(t *testing.T) {
			outside := filepath.Join(t.TempDir(), "outside")
			require.NoError(t, os.Mkdir(outside, 0o755))
			hosttest.Lay(t, outside, precious)
			files := common()
			files["var/log/beside"], files["root/.bash_history"], files["home/admin/x"] = "log", "typed", "x"
			_, root := surrounded(t, files)
			at := filepath.Join(root, c.at)
			c.mount(t, outside, at)
			before, source := testkit.TreeOf(t, at), testkit.TreeOf(t, outside)
			done, audit := result(t, root, Spec{Only: c.rules})
			assert.Equal(t, before, testkit.TreeOf(t, at), "the mounted files changed")
			assert.Equal(t, source, testkit.TreeOf(t, outside), "the source of the mount changed")
			assert.Equal(t, 1, done.Result.ExitCode(), done.Error)
			assert.Contains(t, done.Error, c.at)
			assert.NotZero(t, audit.Result.ExitCode())
			assert.Contains(t, audit.Error+strings.Join(findings(audit), "\n"), c.at)
		})
	}
}

// A hardened machine has separate partitions for /var, /home and others.
func TestPartitionsOfTheMachineAreScrubbed(t *testing.T) {
	for _, kind := range []string{"ext4", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			_, root := surrounded(t, nil)
			for _, at := range []string{"/var", "/var/log", "/var/log/audit", "/var/tmp", "/home", "/tmp", "/opt", "/srv", "/boot", "/root", "/var/lib/kubelet"} {
				partition(t, filepath.Join(root, at), kind, nil)
				require.NoError(t, os.RemoveAll(filepath.Join(root, at, "lost+found")))
			}
			hosttest.Lay(t, root, joinedNode())
			hosttest.Lay(t, root, map[string]string{"var/log/audit/audit.log": "who", "var/log/audit/audit.log.1": "who"})
			done, audit := result(t, root, Spec{})
			assert.Equal(t, plan.Findings, done.Result)
			assert.Regexp(t, "^a person has to decide, or skip the rule: /home/stranger [^/]+$", done.Error)
			assert.Empty(t, audit.Error)
			left := snapshot(t, root)
			assert.Equal(t, "", left["/var/log/audit/audit.log"])
			assert.NotContains(t, left, "/var/log/audit/audit.log.1")
			maps.DeleteFunc(left, func(name, _ string) bool { return strings.HasPrefix(name, "/var/log/audit") })
			for _, d := range diff(scrubbed(t), left) {
				assert.Equal(t, "/", left[d[2:]], "%s", d) // folders without files
			}
		})
	}
}

// A subvolume counts as a partition of the machine. A bind mount of one of its
// folders, and its second mount, do not.
func TestSubvolumesAreScrubbed(t *testing.T) {
	_, root := surrounded(t, common())
	top := filepath.Join(t.TempDir(), "top")
	testkit.Disk(t, top, "128M", "", "mkfs.btrfs", "-q")
	device := strings.TrimSpace(testkit.Run(t, "findmnt", "-no", "SOURCE", top))
	for _, name := range []string{"@home", "@log, with a comma", "@data"} {
		testkit.Run(t, "btrfs", "subvolume", "create", filepath.Join(top, name))
		hosttest.Lay(t, filepath.Join(top, name), map[string]string{"admin/.ssh/authorized_keys": "key", "x.log": "log", "folder/y.log": "log"})
	}
	mountAgain := func(subvolume, at string) { mounted(t, filepath.Join(root, at), "-o", "subvol="+subvolume, device) }
	mountAgain("@home", "/home")
	mountAgain("@data", "/data")
	mounted(t, filepath.Join(root, "/var/log"), "--bind", filepath.Join(top, "@log, with a comma"))
	testkit.Run(t, "umount", top)
	done, audit := result(t, root, Spec{Only: []string{"log-files", "authorized-keys"}})
	assert.Equal(t, plan.OK, done.Result, done.Error)
	assert.Equal(t, plan.Clean, audit.Result, findings(audit))
	left := snapshot(t, root)
	assert.NotContains(t, left, "/home/admin/.ssh/authorized_keys")
	assert.Equal(t, "", left["/var/log/folder/y.log"])
	assert.Equal(t, "key", left["/data/admin/.ssh/authorized_keys"])

	mounted(t, filepath.Join(root, "/opt"), "--bind", filepath.Join(root, "/data/folder"))
	mounted(t, filepath.Join(root, "/root"), "--bind", filepath.Join(root, "/data"))
	hosttest.Lay(t, root, map[string]string{"opt/svc home/.ssh/authorized_keys": "key", "root/.ssh/authorized_keys": "key"})
	done, audit = result(t, root, Spec{Only: []string{"authorized-keys"}})
	assert.Equal(t, plan.Findings, done.Result)
	const untouched = ", not a partition of the machine: the rule did not read or change anything on this mount; unmount "
	assert.Equal(t, []string{
		"finding /opt: a bind mount of /@data/folder on " + device + untouched + "/opt, or skip the rule",
		"finding /root: btrfs of " + device + ", mounted at " + root + "/data too" + untouched + "/root, or skip the rule",
	}, findings(audit))
}

// A search reports a mount from elsewhere once, and no file in it. Folders that
// are never searched may be such a mount.
func TestSearchesDoNotEnterForeignMounts(t *testing.T) {
	outside := t.TempDir()
	for n := range 50 {
		hosttest.Lay(t, outside, map[string]string{fmt.Sprint("key", n): "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n"})
	}
	_, root := surrounded(t, common())
	for _, at := range []string{"/etc/m", "/var/lib/containerd", "/home/admin"} {
		mounted(t, filepath.Join(root, at), "--bind", outside)
	}
	_, audit := result(t, root, Spec{Only: []string{"secrets-left", "hostname"}})
	source := strings.TrimSpace(testkit.Run(t, "findmnt", "-no", "SOURCE", "--nofsroot", "--target", outside))
	reason := ": a bind mount of " + outside + " on " + source + ", not a partition of the machine: the rule did not read or change anything on this mount; unmount "
	assert.Equal(t, []string{"finding /etc/m" + reason + "/etc/m, or skip the rule", "finding /home/admin" + reason + "/home/admin, or skip the rule"}, findings(audit))
}

// A volume for the node's state belongs to the machine. So does a folder that is
// bind-mounted onto itself, as the kubelet does with its own.
func TestSearchesEnterTheMachinesOwnMounts(t *testing.T) {
	const key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n"
	_, root := surrounded(t, common())
	mounted(t, filepath.Join(root, "/var/lib/kubelet"), "-t", "tmpfs", "volume")
	hosttest.Lay(t, root, map[string]string{"var/lib/kubelet/key": key, "var/lib/agent/key": key})
	mounted(t, filepath.Join(root, "/var/lib/agent"), "--bind", filepath.Join(root, "/var/lib/agent"))
	_, audit := result(t, root, Spec{Only: []string{"secrets-left", "hostname"}})
	assert.Equal(t, []string{"finding /var/lib/agent/key: line 1 contains a private key", "finding /var/lib/kubelet/key: line 1 contains a private key"}, findings(audit))
}

// A bind-mounted file is kept and named. On an image root this includes the files
// that a container engine mounts into containers, such as /etc/hosts.
func TestBindMountedFilesAreKeptAndNamed(t *testing.T) {
	for at, rule := range map[string]string{
		"/var/log/f": "log-files", "/root/.bash_history": "histories", "/etc/machine-id": "machine-id", "/etc/hosts": "hosts", "/etc/hostname": "hostname",
	} {
		t.Run(at, func(t *testing.T) {
			outside := filepath.Join(t.TempDir(), "file")
			require.NoError(t, os.WriteFile(outside, []byte("127.0.1.1 precious\n"), 0o644))
			files := common()
			files[at[1:]] = "x"
			_, root := surrounded(t, files)
			testkit.Run(t, "mount", "--bind", outside, filepath.Join(root, at))
			t.Cleanup(func() { testkit.Run(t, "umount", filepath.Join(root, at)) })
			done, audit := result(t, root, Spec{Only: []string{rule}})
			assert.Equal(t, plan.Findings, done.Result)
			assert.Contains(t, done.Error, at+" ("+rule+"): a bind mount of ")
			assert.Equal(t, plan.Findings, audit.Result)
			assert.Equal(t, "127.0.1.1 precious\n", testkit.Content(t, outside))
		})
	}
}

// A FUSE or network file system whose server is gone never answers. Scrub and
// audit do not access it, so they do not hang.
func TestSilentFileSystemsDoNotBlockTheScrub(t *testing.T) {
	files := joinedNode()
	files["home/moved"], files["etc/passwd"] = "-> /mnt/silent/moved", passwd+"moved:x:9:9::/home/moved:/bin/sh\n"
	_, root := surrounded(t, files)
	var silent []*os.File
	hung := time.AfterFunc(time.Minute, func() { // a blocked call returns with an error
		for _, s := range silent {
			_ = s.Close()
		}
	})
	for _, at := range []string{"home/admin", "mnt/silent", "var/log/m"} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, at), 0o755))
		device, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
		require.NoError(t, err)
		silent = append(silent, device)
		options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", device.Fd())
		require.NoError(t, unix.Mount("silent", filepath.Join(root, at), "fuse.test", 0, options))
		t.Cleanup(func() {
			_ = unix.Unmount(filepath.Join(root, at), unix.MNT_DETACH)
			_ = device.Close()
		})
	}
	done, audit := result(t, root, Spec{Hash: true})
	require.True(t, hung.Stop(), "the scrub or audit blocked on the silent file system")
	assert.Equal(t, plan.Findings, done.Result, done.Error)
	for _, at := range []string{"/home/admin", "/mnt/silent", "/var/log/m"} {
		assert.Contains(t, done.Error, at+" (")
		assert.Contains(t, strings.Join(findings(audit), "\n"), "finding "+at+": fuse.test of silent, not a partition of the machine")
	}
	assert.Empty(t, audit.Error)
}
