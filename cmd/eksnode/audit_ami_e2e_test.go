//go:build e2e && linux && !agent

package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	cloudImage    = "ami-0123456789abcdef0"
	cloudSnapshot = "snap-0123456789abcdef0"
)

// usedNode has the state of a node too.
func usedNode(t *testing.T) map[string]string {
	t.Helper()
	files := testkit.CleanNode(t)
	files["var/lib/kubelet/pki/kubelet-client-current.pem"] = "certificate"
	files["etc/machine-id"] = strings.Repeat("0123456789abcdef", 2)
	return files
}

// cloudWith is AWS with an AMI of a disk. The cache is empty.
func cloudWith(t *testing.T, disk string, change func(*ebsdirect.Snapshot)) (*aws.World, *ebsdirect.Double) {
	t.Helper()
	w, double := importWorld(t)
	f, err := os.Open(disk)
	require.NoError(t, err)
	defer f.Close()
	s := ebsdirect.Snapshot{ID: cloudSnapshot, Owner: aws.Account, State: ebsdirect.Completed, Size: 1}
	if change != nil {
		change(&s)
	}
	require.NoError(t, double.Add(s, f))
	i := aws.NewImage(cloudImage, "node", aws.Account, "2026-11-01T00:00:00Z")
	i.Region, i.Devices = aws.Region, []aws.Drive{{Name: "/dev/xvda", Snapshot: cloudSnapshot, Size: 1}}
	w.Images = append(w.Images, i)
	return w, double
}

func cached(t *testing.T) []string {
	t.Helper()
	var names []string
	base := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "eksnode", "assets", "snapshots")
	require.NoError(t, filepath.WalkDir(os.Getenv("XDG_CACHE_HOME"), func(path string, e os.DirEntry, err error) error {
		if err == nil && path != base && strings.HasPrefix(path, base) {
			names = append(names, strings.TrimPrefix(path, base+"/"))
		}
		return err
	}))
	return names
}

func TestAnAuditOfAnAMIFindsWhatTheAuditOfItsDiskFinds(t *testing.T) {
	for name, files := range map[string]map[string]string{"dirty": usedNode(t), "clean": testkit.CleanNode(t)} {
		t.Run(name, func(t *testing.T) {
			disk := rootDisk(t, files)
			cloudWith(t, disk, nil)
			wantCode, text, errOut := command(t, "", "audit", "--disk", disk, "--skip-rules", "not-a-node", "--output", "json")
			want := testkit.JSON[plan.Report](t, text)
			require.Equal(t, map[string]int{"dirty": 1, "clean": 0}[name], wantCode, errOut)
			for _, args := range [][]string{{"--ami", cloudImage}, {"--ami", "eu-west-1:" + cloudImage}, {"--snapshot", cloudSnapshot}, {"--ami", cloudImage, "--partition", "1"}} {
				code, text, errOut := command(t, "", append([]string{"audit", "--skip-rules", "not-a-node", "--output", "json"}, args...)...)
				got := testkit.JSON[plan.Report](t, text)
				assert.Equal(t, wantCode, code, errOut)
				assert.Equal(t, want.Plan, got.Plan)
				assert.Equal(t, want.Rules, got.Rules)
				machine := want.Machine
				machine.Disk, machine.Snapshot, machine.Region = "", cloudSnapshot, "eu-west-1"
				if args[0] == "--ami" {
					machine.AMI = cloudImage
				}
				assert.Equal(t, machine, got.Machine)
				assert.Empty(t, cached(t), "the disk may have secrets")
			}
			for _, format := range []string{"text", "sarif", "junit"} {
				_, want, _ := command(t, "", "audit", "--disk", disk, "--skip-rules", "not-a-node", "--output", format)
				code, got, _ := command(t, "", "audit", "--ami", cloudImage, "--skip-rules", "not-a-node", "--output", format)
				assert.Equal(t, wantCode, code)
				assert.Equal(t, want, got)
			}
		})
	}
}

func TestOtherVolumesOfAnAMIAreInTheReport(t *testing.T) {
	w, _ := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	w.Image("node").Devices = append([]aws.Drive{{Name: "/dev/xvdb", Snapshot: "snap-0000000000000000b"}}, w.Image("node").Devices...)
	out := succeeds(t, "audit", "--ami", cloudImage, "--skip-rules", "not-a-node", "--output", "json")
	const want = "the volume /dev/xvdb (snap-0000000000000000b) was not audited: only the root volume /dev/xvda was; " +
		"audit the other one with --snapshot"
	assert.Equal(t, []string{want}, testkit.JSON[plan.Report](t, out).Warnings)
}

func TestAKeptDiskIsReusedAfterItsVerification(t *testing.T) {
	w, double := cloudWith(t, rootDisk(t, usedNode(t)), nil)
	w.Prompt("the test counts bytes, and repeated calls count twice")
	audit := func(more ...string) (string, int64) {
		before := double.Count().Fetched
		_, errOut := exits(t, 1, append([]string{"audit", "--ami", cloudImage}, more...)...)
		return errOut, double.Count().Fetched - before
	}
	said, fetched := audit("--keep-disk")
	path := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "eksnode/assets/snapshots", cloudSnapshot, "disk.raw")
	assert.Equal(t, "disk: "+path+"\n", said)
	assert.Equal(t, int64(64<<20), fetched)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, fetched = audit("--keep-disk")
	assert.Zero(t, fetched)

	for damage, change := range map[string]func(*os.File) error{
		"the block 5 does not match its checksum":     func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 5<<19+100); return err },
		"the block 2000 does not match its checksum":  func(f *os.File) error { _, err := f.WriteAt([]byte("x"), 2000<<19); return err },
		"does not have the 1 GiB of its snapshot":     func(f *os.File) error { return f.Truncate(512 << 20) },
		"line 1: the file has no checksums of the sn": func(*os.File) error { return os.WriteFile(path+".sums", []byte("x"), 0o600) },
		"has no checksums":                            func(*os.File) error { return os.Remove(path + ".sums") },
	} {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		require.NoError(t, change(f))
		require.NoError(t, f.Close())
		said, fetched = audit("--keep-disk")
		assert.Contains(t, said, damage)
		assert.Contains(t, said, "the snapshot "+cloudSnapshot+" is downloaded again")
		assert.Equal(t, int64(64<<20), fetched, damage)
	}
	_, fetched = audit()
	assert.Zero(t, fetched)
	assert.Empty(t, cached(t))
}

func TestAKilledAuditGoesOn(t *testing.T) {
	_, double := cloudWith(t, rootDisk(t, usedNode(t)), nil)
	held, release := double.Hold("GetSnapshotBlock", 99)
	defer release()
	cmd := exec.Command("eksnode", "audit", "--ami", cloudImage)
	require.NoError(t, cmd.Start())
	<-held
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	release()
	assert.Equal(t, []string{cloudSnapshot, cloudSnapshot + "/disk.raw.journal", cloudSnapshot + "/disk.raw.part",
		cloudSnapshot + ".lock"}, cached(t))
	before := double.Count().Fetched
	out, _ := exits(t, 1, "audit", "--ami", cloudImage)
	assert.Contains(t, out, "/etc/machine-id")
	assert.Less(t, double.Count().Fetched-before, int64(64<<20), "only the rest is read")
	assert.Empty(t, cached(t))
}

// Two audits of a snapshot at the same time read it once each, one after the other.
func TestAuditsOfOneSnapshotWaitForEachOther(t *testing.T) {
	w, double := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	w.Prompt("the test counts calls")
	begun, goOn := double.Hold("GetSnapshotBlock", 0)
	defer goOn()
	first := make(chan string)
	go func() {
		_, _, errOut := command(t, "", "audit", "--ami", cloudImage, "--skip-rules", "not-a-node", "--keep-disk")
		first <- errOut
	}()
	<-begun
	second := exec.Command("eksnode", "audit", "--snapshot", cloudSnapshot, "--skip-rules", "not-a-node")
	said, err := second.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, second.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	assert.Contains(t, line, "another eksnode uses the snapshot "+cloudSnapshot+" in ")
	goOn()
	assert.Regexp(t, `^disk: .*disk\.raw\n$`, <-first)
	require.NoError(t, second.Wait())
	assert.Equal(t, 128, double.Count().Calls["GetSnapshotBlock"], "the second audit verifies the disk of the first one")
	assert.Empty(t, cached(t))
}
