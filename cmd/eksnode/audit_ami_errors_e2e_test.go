//go:build e2e && linux && !agent

package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestAMIsThatCannotBeReadAreErrors(t *testing.T) {
	w, _ := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	image := *w.Image("node")
	for name, one := range map[string]struct {
		change func(*aws.Image)
		ami    string
		says   string
	}{
		"missing": {nil, "ami-00000000", "describing the image ami-00000000: InvalidAMIID.NotFound: The ID 'ami-00000000' does not exist; eu-west-1 has no such AMI that this account may see: name another region with --region, or the snapshot of a deregistered AMI"},
		"elsewhere": {func(i *aws.Image) { i.Region = "us-east-1" }, cloudImage,
			"eu-west-1 has no such AMI that this account may see: name another region with --region, or the snapshot of a deregistered AMI"},
		"instance store": {func(i *aws.Image) { i.RootType = "instance-store" }, cloudImage,
			"finding the root volume of the image " + cloudImage + ": the root volume of the image is on instance-store, not on EBS, so there is no snapshot of it"},
		"pending": {func(i *aws.Image) { i.State = "pending" }, cloudImage,
			"the image is pending; wait for it: aws ec2 wait image-available --region eu-west-1 --image-ids " + cloudImage},
		"failed": {func(i *aws.Image) { i.State = "failed" }, cloudImage, "the state of the image is failed"},
		"no root": {func(i *aws.Image) { i.RootDevice = "/dev/sda1" }, cloudImage,
			"the image has no snapshot of its root device /dev/sda1"},
		"foreign": {func(i *aws.Image) {
			i.Owner, i.Devices = "210987654321", []aws.Drive{{Name: "/dev/xvda", Snapshot: "snap-0000000000000000f"}}
		}, cloudImage, "the snapshot is deleted, or not shared by the account 210987654321: copy the image, and name the copy: aws ec2 copy-image --region eu-west-1 --source-region eu-west-1 --source-image-id " + cloudImage + " --name NAME"},
	} {
		changed := image
		if one.change != nil {
			one.change(&changed)
		}
		w.Images = []*aws.Image{&changed}
		for _, args := range [][]string{{"audit", "--ami", one.ami}, {"ami", "export", one.ami, filepath.Join(t.TempDir(), "x.raw")}} {
			code, out, errOut := command(t, "", args...)
			assert.Equal(t, 2, code, name)
			assert.Empty(t, out, name)
			assert.Contains(t, errOut, one.says, name)
			assert.Empty(t, cached(t), name)
		}
	}
	changed := image
	changed.Platform = "windows"
	w.Images = []*aws.Image{&changed}
	_, _, errOut := command(t, "", "audit", "--ami", cloudImage)
	assert.Equal(t, "eksnode: auditing the image "+cloudImage+": the image is for Windows, and the rules are for Linux\n", errOut)
}

func TestSnapshotsThatCannotBeReadAreErrors(t *testing.T) {
	const copying = "aws ec2 copy-snapshot --region eu-west-1 --source-region eu-west-1 --source-snapshot-id " + cloudSnapshot
	for name, one := range map[string]struct {
		made  func(*ebsdirect.Snapshot)
		shown func(*aws.Snapshot)
		says  string
	}{
		"pending": {func(s *ebsdirect.Snapshot) { s.State = ebsdirect.Pending }, nil,
			"the snapshot is pending (30%), and only a completed one can be read; wait for it: aws ec2 wait snapshot-completed --region eu-west-1 --snapshot-ids " + cloudSnapshot},
		"error":    {func(s *ebsdirect.Snapshot) { s.State = ebsdirect.Errored }, nil, "the state of the snapshot is error, and only a completed one can be read"},
		"archived": {nil, func(s *aws.Snapshot) { s.Tier = "archive" }, "the snapshot is archived; restore it, which takes up to 72 hours: aws ec2 restore-snapshot-tier --region eu-west-1 --snapshot-id " + cloudSnapshot + " --temporary-restore-days 1"},
		"outpost":  {nil, func(s *aws.Snapshot) { s.Outpost = "arn:aws:outposts:eu-west-1:123456789012:outpost/op-1" }, "the snapshot is on the Outpost arn:aws:outposts:eu-west-1:123456789012:outpost/op-1, where the EBS direct APIs cannot read"},
		"public":   {func(s *ebsdirect.Snapshot) { s.Owner, s.Public = "210987654321", true }, nil, "the snapshot belongs to the account 210987654321: copy it into yours first, and name the copy: " + copying},
		"own but public": {func(s *ebsdirect.Snapshot) { s.Public = true }, nil,
			"the EBS direct APIs cannot read public snapshots: if this one is public, copy it first, and name the copy: " + copying},
		"shared": {func(s *ebsdirect.Snapshot) { s.Owner = "210987654321" }, nil, "the snapshot belongs to the account 210987654321: copy it into yours first, and name the copy: " + copying},
		"encrypted": {func(s *ebsdirect.Snapshot) { s.Encrypted, s.Key = true, "arn:aws:kms:eu-west-1:123456789012:key/other" }, nil,
			"kms:Decrypt"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), one.made)
			if one.shown != nil {
				_, _, _ = command(t, "", "audit", "--snapshot", "snap-00000000") // the world learns of the double's snapshot
				one.shown(w.Snapshots[0])
			}
			file := filepath.Join(t.TempDir(), "x.raw")
			for _, args := range [][]string{{"audit", "--ami", cloudImage}, {"audit", "--snapshot", cloudSnapshot}, {"ami", "export", cloudSnapshot, file}} {
				out, errOut := exits(t, 2, args...)
				assert.Empty(t, out)
				assert.Contains(t, errOut, cloudSnapshot)
				assert.Contains(t, errOut, one.says)
				assert.Empty(t, cached(t))
			}
			assert.Empty(t, testkit.Names(t, filepath.Dir(file)))
		})
	}
}

func TestAnEncryptedSnapshotIsAuditedWithItsKey(t *testing.T) {
	key := "arn:aws:kms:eu-west-1:123456789012:key/mine"
	_, double := cloudWith(t, rootDisk(t, usedNode(t)), func(s *ebsdirect.Snapshot) { s.Encrypted, s.Key = true, key })
	double.Keys = []string{key}
	double.Fail("ListSnapshotBlocks", 2, ebsdirect.Failure{Status: http.StatusInternalServerError, Code: "InternalServerException", Message: "try again"})
	double.Fail("GetSnapshotBlock", 3, ebsdirect.Failure{Status: http.StatusBadRequest, Code: "RequestThrottledException", Message: "slower"})
	out, _ := exits(t, 1, "audit", "--ami", cloudImage)
	assert.Contains(t, out, "/etc/machine-id")
}

func TestADiskWithoutARootIsAnError(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk.raw")
	testkit.In(t, filepath.Dir(disk), "sh", "-ec", "truncate -s 64M disk.raw")
	cloudWith(t, disk, nil)
	text, errOut := exits(t, 2, "audit", "--ami", cloudImage)
	assert.Empty(t, text)
	assert.Contains(t, errOut, "auditing the root volume /dev/xvda of "+cloudImage+" ("+cloudSnapshot+" in eu-west-1): ")
	assert.Contains(t, errOut, "no root file system found: the disk has no partition table and no Linux file system")
	assert.Empty(t, cached(t))
}

func TestAFullDiskEndsTheDownload(t *testing.T) {
	files := testkit.CleanNode(t)
	large := make([]byte, 40<<20)
	_, _ = rand.Read(large) // never fails, by its documentation
	files["srv/large"] = string(large)
	_, double := cloudWith(t, rootDisk(t, files), nil)
	folder := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	_, errOut := exits(t, 2, "audit", "--ami", cloudImage, "--cache-folder", folder)
	assert.Regexp(t, `the folder `+folder+`/snapshots/`+cloudSnapshot+` has 33\.\d MB free, but 67\.1 MB are still to be read: no space left on device; make space, or choose another folder with --cache-folder\n$`, errOut)
	assert.Zero(t, double.Count().Calls["GetSnapshotBlock"])
	_, errOut = exits(t, 2, "ami", "export", cloudImage, filepath.Join(folder, "x.raw"))
	assert.Contains(t, errOut, "make space, or name a file on another disk")
	left := testkit.Names(t, filepath.Join(folder, "snapshots"))
	assert.Empty(t, left)

	// Another program fills the disk meanwhile.
	require.NoError(t, syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT, "size=72m"))
	fill := sync.OnceFunc(func() {
		assert.ErrorIs(t, os.WriteFile(filepath.Join(folder, "other"), make([]byte, 72<<20), 0o600), syscall.ENOSPC)
	})
	var gets atomic.Int32
	double.Before("GetSnapshotBlock", func() {
		// 32 blocks are read at once: the next one says that the file has one.
		if gets.Add(1) > 32 {
			fill()
		}
	})
	_, errOut = exits(t, 2, "audit", "--ami", cloudImage, "--cache-folder", folder)
	assert.Contains(t, errOut, "disk.raw.part: no space left on device; the next run reads the rest; make space, or choose another folder with --cache-folder")
}

func TestAuditsOfAMIsNeedRootBeforeTheDownload(t *testing.T) {
	_, double := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	cmd := exec.Command("/proc/self/exe", "--ami", cloudImage)
	cmd.Args = []string{"eksnode", "audit", "--ami", cloudImage}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	require.Error(t, cmd.Run())
	assert.Equal(t, "eksnode: auditing "+cloudImage+": only root may mount a file system: run the command with sudo; sudo -E keeps the AWS credentials of the environment\n", errOut.String())
	assert.Empty(t, double.Count().Calls)
}

func TestAnExportIsTheDisk(t *testing.T) {
	disk := rootDisk(t, usedNode(t))
	w, double := cloudWith(t, disk, nil)
	w.Prompt("the test counts calls")
	file := filepath.Join(t.TempDir(), "node.raw")
	out := succeeds(t, "ami", "export", cloudImage, file)
	assert.Regexp(t, `^`+file+` is the root volume /dev/xvda of `+cloudImage+` \(`+cloudSnapshot+` in eu-west-1\): a disk of 1 GiB with 128 blocks \(67\.1 MB\), 67\.1 MB fetched in .*
digest: sha256:[0-9a-f]{64}
for qcow2: qemu-img convert -f raw -O qcow2 `+file+` .*/node\.qcow2\n$`, out)
	digest := regexp.MustCompile("sha256:[0-9a-f]{64}").FindString(out)
	assert.Equal(t, hashOf(t, disk, 1<<30), hashOf(t, file, 0))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Len(t, testkit.Names(t, filepath.Dir(file)), 1)

	_, errOut := exits(t, 2, "ami", "export", cloudImage, file)
	assert.Contains(t, errOut, file+" exists; name another file, or replace this one with --force")
	calls := double.Count().Calls["GetSnapshotBlock"]
	out = succeeds(t, "ami", "export", "eu-west-1:"+cloudSnapshot, file, "--force", "--output", "json")
	assert.Equal(t, calls+128, double.Count().Calls["GetSnapshotBlock"])
	assert.JSONEq(t, `{"file": "`+file+`", "size": 1073741824, "used": 67108864, "fetched": 67108864, "snapshot": "`+cloudSnapshot+`", "region": "eu-west-1",
		"digest": "`+digest+`"}`, out)
}

// hashOf is the SHA-256 of a file, with zeros up to a size.
func hashOf(t *testing.T, path string, size int64) [32]byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	require.NoError(t, err)
	require.Equal(t, info.Size(), n)
	zeros := make([]byte, 1<<20)
	for ; n < size; n += int64(len(zeros)) {
		sum.Write(zeros)
	}
	return [32]byte(sum.Sum(nil))
}

// TestExportsReadWhatBoto3Wrote compares with another client of the EBS direct APIs,
// AWS's own library for Python.
func TestExportsReadWhatBoto3Wrote(t *testing.T) {
	w, _ := aws.NewWithEBS(t)
	environment := `AWS_ENDPOINT_URL_EBS=` + os.Getenv("AWS_ENDPOINT_URL_EBS") + ` AWS_DEFAULT_REGION=$AWS_REGION `
	out, err := w.Shell(environment+"python3 client.py",
		map[string]string{"client.py": testkit.Content(t, "testdata/boto3.py")})
	require.NoError(t, err)
	words := strings.Fields(out)
	require.Len(t, words, 2, out)
	file := filepath.Join(t.TempDir(), "x.raw")
	succeeds(t, "ami", "export", words[0], file)
	assert.Equal(t, words[1], fmt.Sprintf("%x", hashOf(t, file, 0)))
}

// An export that was stopped goes on where it stopped.
func TestAStoppedExportGoesOn(t *testing.T) {
	disk := rootDisk(t, usedNode(t))
	_, double := cloudWith(t, disk, nil)
	file := filepath.Join(t.TempDir(), "x.raw")
	held, release := double.Hold("GetSnapshotBlock", 99)
	defer release()
	cmd := exec.Command("eksnode", "ami", "export", cloudImage, file)
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	<-held
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	assert.Contains(t, said.String(), "; the same command continues with "+file+".part\n")
	release()
	require.NoFileExists(t, file)
	before := double.Count().Calls["GetSnapshotBlock"]
	succeeds(t, "ami", "export", cloudImage, file)
	assert.Less(t, double.Count().Calls["GetSnapshotBlock"]-before, 100)
	assert.Equal(t, hashOf(t, disk, 1<<30), hashOf(t, file, 0))
}

// The printed policy has the permissions for the calls, and those of KMS.
func TestThePolicyForReadingAMIsHasTheirCalls(t *testing.T) {
	w, double := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	succeeds(t, "ami", "publish", cloudImage, "--parameter", "/node")
	w.Image(cloudImage).Source = "ami-00000000000c0de01"
	before := w.Count()
	succeeds(t, "audit", "--ami", "resolve:ssm:/node", "--skip-rules", "not-a-node")
	succeeds(t, "ami", "export", cloudImage, filepath.Join(t.TempDir(), "x.raw"))
	made := []string{"kms:Decrypt"} // EBS calls KMS itself
	for call, n := range w.Count() {
		if n > before[call] {
			made = append(made, call)
		}
	}
	for call := range double.Count().Calls {
		if strings.HasSuffix(call, "Blocks") || strings.HasSuffix(call, "Block") { // the others are EC2's
			made = append(made, "ebs:"+call)
		}
	}
	slices.Sort(made)
	for _, args := range [][]string{{"audit", "--policy"}, {"ami", "export", "--policy"}} {
		out := succeeds(t, args...)
		want := made
		if args[0] == "ami" { // only an audit asks where an AMI comes from
			want = slices.DeleteFunc(slices.Clone(made), func(one string) bool { return one == "ec2:GetImageAncestry" })
		}
		assert.Equal(t, want, aws.ActionsOf(t, out))
	}
	for _, action := range []string{"ec2:DescribeImages", "ec2:DescribeSnapshots"} {
		w.Deny(action)
		_, _, errOut := command(t, "", "audit", "--ami", cloudImage)
		assert.Contains(t, errOut, "the permission "+action+" is missing")
		w.Heal()
	}
}

// The disk of an AMI is a base image. Its system is none that a build could work in.
func TestBuildsBeginWithAMIs(t *testing.T) {
	_, double := cloudWith(t, rootDisk(t, testkit.CleanNode(t)), nil)
	build := func(args ...string) (int, string) {
		code, _, errOut := command(t, "", append([]string{"build", "--dry-run", "--kubernetes-version", "1.36.3"}, args...)...)
		return code, errOut
	}
	code, errOut := build("--base", "eu-west-1:"+cloudImage)
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "the root has no folder /proc", "the disk is mounted, and has no such folder")
	assert.NotZero(t, double.Count().Calls["GetSnapshotBlock"])
	code, errOut = build("--base", "ami-0123456789abcdef9")
	assert.Equal(t, 2, code)
	assert.Contains(t, errOut, "has no such AMI that this account may see")
}
