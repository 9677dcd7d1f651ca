//go:build e2e && linux && !agent

package main

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// packagedDisk makes a disk of 64 MiB with an ext4 root that has two packages of dpkg.
func packagedDisk(t *testing.T) string {
	t.Helper()
	return rootDisk(t, map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=13\n", "etc/ssh/sshd_config": "Port 22\n", "usr/bin/containerd": "one", "etc/old/file": "", "opt/file": "",
		"var/lib/dpkg/status": "Package: containerd\nStatus: install ok installed\nVersion: 1.7.1\n\nPackage: openssh-server\nStatus: install ok installed\nVersion: 9.2\n\n" +
			"Package: old\nStatus: install ok installed\nVersion: 1\n",
		"var/lib/dpkg/info/containerd.list":     "/usr\n/usr/bin\n/usr/bin/containerd\n",
		"var/lib/dpkg/info/openssh-server.list": "/etc\n/etc/ssh\n/etc/ssh/sshd_config\n/usr\n/usr/bin\n",
		"var/lib/dpkg/info/old.list":            "/etc\n/etc/old\n/etc/old/file\n",
	})
}

// upgradedDisk is a copy of a disk after an upgrade of a package and other changes.
func upgradedDisk(t *testing.T, disk string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "new.raw")
	testkit.Run(t, "unshare", "-m", "sh", "testdata/upgrade.sh", disk, copied)
	return copied
}

// diskChanges is what the text output says about the files of upgradedDisk.
//
//go:embed testdata/upgrade.out
var diskChanges string

func importDisk(t *testing.T, disk string, args ...string) string {
	t.Helper()
	out := succeeds(t, append([]string{"ami", "import", disk, "--audit", "off", "--ami-architecture", "x86_64",
		"--output", "json"}, args...)...)
	made := testkit.JSON[imported](t, out)
	return made.Image.ID
}

// Of two AMIs of one lineage, only the changed blocks of the second one are read.
// Of others, both are read. The files are the same.
func TestAMIDiffComparesDisks(t *testing.T) {
	w, double := importWorld(t)
	w.Prompt("the test counts bytes, and repeated calls count twice")
	before := packagedDisk(t)
	after := upgradedDisk(t, before)
	first := importDisk(t, before, "--ami-name", "one")
	whole := double.Count().Sent
	second := importDisk(t, after, "--ami-name", "two", "--parent-ami", first)
	changed := double.Count().Sent - whole
	require.Less(t, changed, whole)
	third := importDisk(t, after, "--ami-name", "three")

	start := double.Count()
	out, errOut := exits(t, 0, "ami", "diff", "--disk", first, second)
	require.Regexp(t, `^~ tag eksnode:digest: (.*)\n1 difference between `+first+` and `+second+`\ndigest: sha256:\w{64} -> sha256:\w{64}\nblocks: \d+ changed \([0-9.]+ MiB\), \d+ added \([0-9.]+ MiB\), 0 removed \(0.0 MiB\), as EBS lists them\n`, out)
	_, files, _ := strings.Cut(out, "as EBS lists them\n")
	assert.Equal(t, diskChanges, files)
	assert.Contains(t, errOut, "reading the changes of the root volume /dev/xvda of "+second)
	assert.Equal(t, whole+changed, double.Count().Fetched-start.Fetched)

	out = succeeds(t, "ami", "diff", "--disk", first, third)
	_, files, _ = strings.Cut(out, "by content, without free space\n")
	assert.Equal(t, diskChanges, files)

	out = succeeds(t, "ami", "diff", "--disk", second, third)
	assert.Regexp(t, `\ndigest: sha256:\w{64}\n`, out, "the same content")
	assert.Contains(t, out, "blocks: 0 changed (0.0 MiB), 0 added (0.0 MiB), 0 removed (0.0 MiB), by content, without free space\npackages: 0 changed, 0 added, 0 removed\nfiles: 0 changed, 0 added, 0 removed\n")

	_, out, errOut = command(t, "", "ami", "diff", "--disk", before, second)
	assert.NotContains(t, out, "differences between", errOut)
	_, files, _ = strings.Cut(out, "by content, without free space\n")
	assert.Equal(t, diskChanges, files, "a file and an AMI")

	start = double.Count()
	out = succeeds(t, "ami", "diff", "--disk", first, first, "--output", "json")
	assert.Equal(t, start.Fetched, double.Count().Fetched)
	assert.Regexp(t, `both disks are the snapshot snap-`, out)
	assert.Empty(t, testkit.Glob(t, os.Getenv("XDG_CACHE_HOME")+"/eksnode/assets/snapshots/*"))
}

func TestAMIDiffOfSnapshotsInJSON(t *testing.T) {
	w, double := importWorld(t)
	before := packagedDisk(t)
	after := upgradedDisk(t, before)
	first := w.Image(importDisk(t, before, "--ami-name", "one"))
	second := w.Image(importDisk(t, after, "--ami-name", "two", "--parent-snapshot", first.Devices[0].Snapshot))
	args := []string{"ami", "diff", "--disk", first.Devices[0].Snapshot, "eu-west-1:" + second.Devices[0].Snapshot, "--output", "json"}
	double.Fail("GetSnapshotBlock", 1, ebsdirect.Failure{Status: 403, Code: "AccessDeniedException", Message: "no"})
	_, errOut := exits(t, 2, args...)
	assert.Contains(t, errOut, "eksnode: comparing the snapshot "+first.Devices[0].Snapshot+" in eu-west-1: downloading the snapshot ")

	out := succeeds(t, args...)
	var found struct {
		Facts  []any
		Blocks struct {
			By      string
			Changed int
		}
		Roots []struct {
			Partition  int
			FileSystem string `json:"file_system"`
		}
		Packages []struct {
			Name          string
			Before, After *string
			Files         int
		}
		Files []struct {
			Path, Group, Package string
			Differs              []string
			Before, After        *struct{ Type, SHA256 string }
		}
		Notes []string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &found))
	assert.Equal(t, "lineage", found.Blocks.By)
	assert.Positive(t, found.Blocks.Changed)
	assert.Equal(t, "ext4", found.Roots[1].FileSystem)
	require.Len(t, found.Packages, 3)
	assert.Equal(t, "1.7.2", *found.Packages[0].After)
	assert.Nil(t, found.Packages[2].Before)
	require.Len(t, found.Files, 13)
	for _, f := range found.Files {
		switch f.Path {
		case "/usr/bin/containerd":
			assert.Equal(t, []string{"changed package", "containerd", "content"}, append([]string{f.Group, f.Package}, f.Differs...))
			assert.Regexp(t, regexp.MustCompile("^[0-9a-f]{64}$"), f.After.SHA256)
		case "/opt/\x1b[31mred":
			assert.Nil(t, f.Before)
		}
	}
	assert.Contains(t, out, `"facts": [],`)
}

// An encrypted snapshot and one without encryption are of different lineages. Their
// disks are read in the order of the IDs, and compared in that of the arguments.
func TestAMIDiffOfEncryptedSnapshots(t *testing.T) {
	_, double := importWorld(t)
	before := packagedDisk(t)
	for id, one := range map[string]struct{ path, key string }{
		"snap-0000000000000000b": {before, ""}, "snap-0000000000000000a": {upgradedDisk(t, before), double.DefaultKey},
	} {
		f, err := os.Open(one.path)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, double.Add(ebsdirect.Snapshot{ID: id, Owner: aws.Account, State: ebsdirect.Completed, Size: 1, Encrypted: one.key != "", Key: one.key}, f))
	}
	out := succeeds(t, "ami", "diff", "--disk", "snap-0000000000000000b", "snap-0000000000000000a")
	_, files, _ := strings.Cut(out, "by content, without free space\n")
	assert.Equal(t, diskChanges, files)
	assert.Zero(t, double.Count().Calls["ListChangedBlocks"])
}

func TestAMIDiffOfDisksThatCannotBeRead(t *testing.T) {
	_, double := importWorld(t)
	disk := packagedDisk(t)
	first := importDisk(t, disk, "--ami-name", "one")
	manifest := filepath.Join(t.TempDir(), "manifest.json")
	require.NoError(t, os.WriteFile(manifest, []byte(`{"schema":"eksnode.image/v1"}`), 0o600))
	text := filepath.Join(t.TempDir(), "notes")
	require.NoError(t, os.WriteFile(text, []byte("notes\n"), 0o600))
	fetched := double.Count().Fetched
	for args, want := range map[string]string{
		"--disk " + first + " snap-0123456789abcdef0":                              "InvalidSnapshot.NotFound",
		"--disk " + first + " " + manifest:                                         manifest + " is a manifest, not a disk image; without --disk, diff compares manifests",
		"--disk " + first + " " + text:                                             "no root file system found",
		"--disk --partition 3 " + disk + " " + first:                               "the disk has no partition 3, but 1 (ext4, 62.9 MB)",
		first + " " + disk:                                                         "reading the manifest " + disk + ": the file is not JSON; add --disk to compare disk images",
		"--disk snap-0123456789abcdef0 " + first + " --region eu-west-1,us-east-1": "snap-0123456789abcdef0: several regions are open; name the region of the snapshot, such as eu-west-1:snap-0123456789abcdef0",
	} {
		_, errOut := exits(t, 2, append([]string{"ami", "diff"}, strings.Fields(args)...)...)
		assert.Contains(t, errOut, want, args)
	}
	assert.Equal(t, fetched, double.Count().Fetched, "all errors come before the download")
}
