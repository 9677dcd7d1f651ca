//go:build linux

package scrub

import (
	"bytes"
	"crypto/md5"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rules"
)

func md5Of(text string) string { return fmt.Sprintf("%x", md5.Sum([]byte(text))) }

// packaged is a root with a package of dpkg, whose files are as installed.
func packaged(t *testing.T) map[string]string {
	t.Helper()
	key := pemKey("PRIVATE KEY")
	return map[string]string{
		"etc/passwd": passwd, "usr/bin/tool": "tool", "usr/lib/tool/test.pem": key, "etc/tool.conf": "password = S3" + "curePw9x\n", "etc/hosts": "127.0.0.1 localhost\n", "usr/share/doc/tool/copyright": "free",
		"var/lib/dpkg/info/tool.list":    "/.\n/usr/bin/tool\n/usr/lib/tool/test.pem\n/usr/share/doc/tool/copyright\n/etc/tool.conf\n/etc/hosts\n",
		"var/lib/dpkg/info/tool.md5sums": md5Of("tool") + "  usr/bin/tool\n" + md5Of(key) + "  usr/lib/tool/test.pem\n" + md5Of("x") + "  etc/hosts\n" + md5Of("free") + "  usr/share/doc/tool/copyright\n",
		"var/lib/dpkg/status":            "Package: tool\nStatus: install ok installed\nConffiles:\n /etc/tool.conf " + md5Of("password = S3"+"curePw9x\n") + "\n",
	}
}

func elfHead(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
	}))
	return b.String()
}

// What a package owns and has not changed is not searched: test keys and sample
// settings are public. A changed file is searched like any other.
func TestUnchangedFilesOfPackagesAreNotSearched(t *testing.T) {
	files := packaged(t)
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "secrets-left"))

	// A database with no checksums for a library leaves the library public.
	without := maps.Clone(files)
	without["usr/share/doc/tool/key"] = pemKey("PRIVATE KEY")
	without["usr/lib/libtool.so"] = elfHead(t) + pemKey("PRIVATE KEY")
	without["var/lib/dpkg/info/tool.md5sums"] = md5Of("tool") + "  usr/bin/tool\n" + md5Of(files["usr/lib/tool/test.pem"]) + "  usr/lib/tool/test.pem\n"
	h, _ = tree(t, without)
	assert.Empty(t, audit(t, h, "secrets-left"))

	files["usr/lib/tool/test.pem"] += "\n"
	files["etc/tool.conf"] += "# mine\n"
	files["usr/lib/tool/own.pem"] = pemKey("PRIVATE KEY")
	files["usr/share/doc/tool/key"] = pemKey("PRIVATE KEY") // no package owns the file
	h, _ = tree(t, files)
	assert.Equal(t, []string{
		"/etc/tool.conf: line 1 contains a password",
		"/usr/lib/tool/own.pem: line 1 contains a private key",
		"/usr/lib/tool/test.pem: line 1 contains a private key",
		"/usr/share/doc/tool/key: line 1 contains a private key",
	}, audit(t, h, "secrets-left"))
}

// Changed files are notes, which change no result. They are findings for the
// person who selects the rule. Files that a provision records are left to
// can-join.
func TestChangedFilesOfPackagesAreNotes(t *testing.T) {
	files := packaged(t)
	h, _ := tree(t, files)
	assert.Empty(t, audit(t, h, "changed-files"))

	files["usr/bin/tool"], files["etc/tool.conf"] = "other", "-> /etc/elsewhere"
	text, err := (&manifest.Manifest{Files: []manifest.File{{Path: "/usr/lib/tool/test.pem", Mode: 0o644}}}).Encode()
	require.NoError(t, err)
	files[manifest.Path[1:]], files["usr/lib/tool/test.pem"] = string(text), "written by a provision"
	h, root := tree(t, files)
	want := []plan.Finding{
		{Target: "/usr/bin/tool", Reason: `differs from the file that the package "tool" installed`},
		{Target: "/etc/tool.conf", Reason: `configuration of the package "tool", changed since installation; now a link or a special file`},
	}
	look := func(only ...string) (plan.Report, []plan.Check) {
		var r plan.Report
		list, checks := plan.Look(t.Context(), h, selected(t, Spec{Only: only}, ToAudit), nil)
		r.Audited(list, checks)
		return r, checks
	}
	got, _ := look("changed-files")
	require.Len(t, got.Plan, 1)
	assert.Equal(t, want, got.Plan[0].Findings)
	assert.Equal(t, 1, got.Result.ExitCode())

	got, checks := look("packages")
	assert.Equal(t, 0, got.Result.ExitCode())
	assert.Contains(t, checks, plan.Check{Item: "changed-files", Phase: "inspect", Outcome: plan.Passed, Notes: want})

	require.NoError(t, os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644))
	require.NoError(t, os.Remove(filepath.Join(root, "var/lib/dpkg/info/tool.md5sums")))
	assert.Empty(t, audit(t, h, "changed-files"), "nothing says what the package installed")
}

// afterAScrub is a machine whose scrub has ended.
func afterAScrub(t *testing.T) (*host.Host, string) {
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "etc/machine-id": "", "etc/app.conf": "x", "usr/local/bin/": "", "usr/bin/app": "x", "opt/app/": "", "srv/": "",
	})
	require.NoError(t, rules.Ended(t.Context(), h, "1.2.3", nil))
	return h, root
}

// writeLater makes changes until the kernel's clock has left the time of the record.
func writeLater(t *testing.T, root, name string) {
	t.Helper()
	st, err := os.Lstat(filepath.Join(root, recordPath))
	require.NoError(t, err)
	p := filepath.Join(root, name)
	require.Eventually(t, func() bool {
		require.NoError(t, os.WriteFile(p, []byte("x"), 0o644))
		changed, err := os.Lstat(p)
		require.NoError(t, err)
		return changedAt(changed).After(changedAt(st))
	}, 10*time.Second, time.Millisecond)
}

func changedAt(st os.FileInfo) time.Time {
	at := st.Sys().(*syscall.Stat_t).Ctim
	return time.Unix(at.Unix())
}

const late = ": changed after the scrub: make the scrub the last step"

func TestWorkAfterTheScrubIsFound(t *testing.T) {
	for _, name := range []string{"etc/app.conf", "usr/local/bin/new", "usr/bin/app", "opt/app/new", "srv/new"} {
		h, root := afterAScrub(t)
		assert.Empty(t, audit(t, h, "after-scrub"))
		writeLater(t, root, name)
		// Package managers give files the time of the package.
		require.NoError(t, os.Chtimes(filepath.Join(root, name), time.Unix(0, 0), time.Unix(0, 0)))
		assert.Equal(t, []string{"/" + name + late}, audit(t, h, "after-scrub"))
		require.NoError(t, rules.Ended(t.Context(), h, "1.2.3", nil))
		assert.Empty(t, audit(t, h, "after-scrub"))
		before := snapshot(t, root)
		require.NoError(t, rules.Ended(t.Context(), h, "1.2.4", nil))
		assert.Equal(t, before, snapshot(t, root), "a scrub with nothing to do writes nothing")
		require.NoError(t, rules.Ended(t.Context(), h, "1.2.4", []plan.Outcome{{Actions: make([]plan.Action, 1)}}))
		assert.NotEqual(t, before, snapshot(t, root))
	}
}

func TestManyChangesAfterTheScrubAreCounted(t *testing.T) {
	h, root := afterAScrub(t)
	for i := range changedMost + 2 {
		writeLater(t, root, fmt.Sprintf("opt/app/%02d", i))
	}
	found := audit(t, h, "after-scrub")
	assert.Len(t, found, changedMost+1)
	assert.Equal(t, recordPath+": 2 more files changed after the scrub", found[changedMost])
}

func TestAProvisionAfterTheScrubIsFound(t *testing.T) {
	h, _ := afterAScrub(t)
	follows, err := rules.Provisioned(h, true)
	require.NoError(t, err)
	assert.True(t, follows)
	assert.Empty(t, audit(t, h, "after-scrub"), "a dry run changes nothing")
	follows, err = rules.Provisioned(h, false)
	require.NoError(t, err)
	assert.True(t, follows)
	assert.Equal(t, []string{recordPath + ": a provision ran after the scrub: make the scrub the last step"}, audit(t, h, "after-scrub"))
}

// What a shutdown, a capture, a copy of the files and a first boot do is no work of a
// provisioner.
func TestCapturesAndFirstBootsAreNoWorkAfterTheScrub(t *testing.T) {
	h, root := afterAScrub(t)
	for _, name := range []string{"etc/resolv.conf", "etc/adjtime", "etc/machine-id", "var/log/wtmp", "var/lib/systemd/random-seed", "root/.ssh/authorized_keys", "boot/grub/grubenv", "usr/bin/__pycache__/x.pyc"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		writeLater(t, root, name)
	}
	require.NoError(t, os.Truncate(filepath.Join(root, "etc/machine-id"), 0))
	assert.Empty(t, audit(t, h, "after-scrub"))

	// A copy has other change times. Here the original's contents are an hour old.
	old := time.Now().Add(-time.Hour)
	require.NoError(t, filepath.Walk(root, func(name string, _ os.FileInfo, err error) error {
		require.NoError(t, err)
		return os.Chtimes(name, old, old)
	}))
	target := t.TempDir()
	testkit.Run(t, "cp", "-a", root+"/.", target)
	copied := hosttest.Mounted(t, target)
	assert.Empty(t, audit(t, copied, "after-scrub"))
	require.NoError(t, os.WriteFile(filepath.Join(target, "opt/app/new"), nil, 0o644))
	assert.Equal(t, []string{"/opt/app" + late, "/opt/app/new" + late}, audit(t, copied, "after-scrub"))

	require.NoError(t, os.WriteFile(filepath.Join(target, "etc/machine-id"), []byte(oldID+"\n"), 0o644))
	assert.Empty(t, audit(t, copied, "after-scrub"), "the image has booted")
	follows, err := rules.Provisioned(copied, false)
	require.NoError(t, err)
	assert.False(t, follows, "a base image of an earlier build was scrubbed too")
}

func TestADamagedRecordIsAnError(t *testing.T) {
	h, root := afterAScrub(t)
	for _, text := range []string{"", "{", `{"schema":"x"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(root, recordPath), []byte(text), 0o644))
		_, err := look(t, "after-scrub", h)
		require.ErrorContains(t, err, "scrub again")
	}
}

func TestAgentsOfCutSessionsAreRemoved(t *testing.T) {
	const name = "eksnode-0123456789abcdef"
	files := map[string]string{
		"etc/passwd": passwd, "opt/a b/" + name + "/eksnode": "x", "home/admin/" + name + "/": "", "usr/local/" + name + "/eksnode": "x",
		"srv/" + name + "/eksnode": "x", "srv/" + name + "/mine": "x", "opt/eksnode-0123456789abcdeg/eksnode": "x", "opt/x/" + name: "a file",
		"var/lib/containerd/" + name + "/eksnode": "x", "run/eksnode-agent/eksnode": "x",
	}
	h, root := tree(t, files)
	const why = ": the agent of a session that was cut"
	assert.ElementsMatch(t, []string{
		"/run/eksnode-agent: the agent that a provision kept",
		"/opt/a b/" + name + why, "/home/admin/" + name + why, "/usr/local/" + name + why,
		"/srv/" + name + ": has the name of the agent's folder, and other files: look at them and remove the folder",
	}, audit(t, h, "agent-folders"))
	require.NoError(t, rules.RemoveAgents(h, "/usr/local"))
	require.NoError(t, rules.RemoveAgents(h, "/srv"))
	assert.NoDirExists(t, filepath.Join(root, "run/eksnode-agent"))
	assert.NoDirExists(t, filepath.Join(root, "usr/local", name))
	assert.FileExists(t, filepath.Join(root, "srv", name, "mine"))
	apply(t, h, Spec{Only: []string{"agent-folders"}})
	left := snapshot(t, root)
	assert.NotContains(t, left, "/opt/a b/"+name)
	assert.FileExists(t, filepath.Join(root, "opt/eksnode-0123456789abcdeg/eksnode"))
	assert.FileExists(t, filepath.Join(root, "opt/x", name))
}
