//go:build e2e && linux && !agent

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

const (
	cloudImage    = "ami-0123456789abcdef0"
	cloudSnapshot = "snap-0123456789abcdef0"
)

// cleanNode are the files of a root without findings, if the rule not-a-node is
// skipped.
func cleanNode(t *testing.T) map[string]string {
	t.Helper()
	shell, err := os.ReadFile("/proc/self/exe") // an ELF file for this architecture
	require.NoError(t, err)
	return map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/machine-id": "", "bin/sh": string(shell[:4096])}
}

// usedNode has the state of a node too.
func usedNode(t *testing.T) map[string]string {
	t.Helper()
	files := cleanNode(t)
	files["var/lib/kubelet/pki/kubelet-client-current.pem"] = "certificate"
	files["etc/machine-id"] = strings.Repeat("0123456789abcdef", 2)
	return files
}

// diskOfNode makes a disk with an ext4 root, which has the files.
func diskOfNode(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	root, part, disk := filepath.Join(folder, "root"), filepath.Join(folder, "part"), filepath.Join(folder, "disk.raw")
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o755))
	}
	script := `truncate -s 60M "$1"; mkfs.ext4 -q -d "$2" "$1"; truncate -s 64M "$3"
printf 'label: gpt\nstart=2048, size=122880, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' | sfdisk -q "$3"
dd if="$1" of="$3" bs=1M seek=1 conv=notrunc,sparse status=none; rm "$1"`
	out, err := exec.Command("sh", "-ec", script, "sh", part, root, disk).CombinedOutput()
	require.NoError(t, err, string(out))
	return disk
}

// cloudWith is AWS with an AMI of a disk. The cache is empty.
func cloudWith(t *testing.T, disk string, change func(*ebsdirect.Snapshot)) (*aws.World, *ebsdirect.Double) {
	t.Helper()
	w := aws.New(t)
	w.Folder = t.TempDir()
	w.Serve()
	double := w.ServeEBS()
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
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return w, double
}

// cached lists the files in the cache.
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

func reportOf(t *testing.T, text string) plan.Report {
	t.Helper()
	var r plan.Report
	require.NoError(t, json.Unmarshal([]byte(text), &r), text)
	return r
}

func TestAnAuditOfAnAMIFindsWhatTheAuditOfItsDiskFinds(t *testing.T) {
	for name, files := range map[string]map[string]string{"dirty": usedNode(t), "clean": cleanNode(t)} {
		t.Run(name, func(t *testing.T) {
			disk := diskOfNode(t, files)
			cloudWith(t, disk, nil)
			wantCode, text, errOut := command(t, "", "audit", "--disk", disk, "--skip-rules", "not-a-node", "--output", "json")
			want := reportOf(t, text)
			require.Equal(t, map[string]int{"dirty": 1, "clean": 0}[name], wantCode, errOut)
			for _, args := range [][]string{{"--ami", cloudImage}, {"--ami", "eu-west-1:" + cloudImage}, {"--snapshot", cloudSnapshot}, {"--ami", cloudImage, "--partition", "1"}} {
				code, text, errOut := command(t, "", append([]string{"audit", "--skip-rules", "not-a-node", "--output", "json"}, args...)...)
				got := reportOf(t, text)
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
	w, _ := cloudWith(t, diskOfNode(t, cleanNode(t)), nil)
	w.Image("node").Devices = append([]aws.Drive{{Name: "/dev/xvdb", Snapshot: "snap-0000000000000000b"}}, w.Image("node").Devices...)
	code, out, errOut := command(t, "", "audit", "--ami", cloudImage, "--skip-rules", "not-a-node", "--output", "json")
	require.Equal(t, 0, code, errOut)
	assert.Equal(t, []string{"the volume /dev/xvdb (snap-0000000000000000b) was not audited: only the root volume /dev/xvda was; audit the other one with --snapshot"}, reportOf(t, out).Warnings)
}

func TestAKeptDiskIsReusedAfterItsVerification(t *testing.T) {
	_, double := cloudWith(t, diskOfNode(t, usedNode(t)), nil)
	audit := func(more ...string) (string, int64) {
		before := double.Count().Fetched
		code, _, errOut := command(t, "", append([]string{"audit", "--ami", cloudImage}, more...)...)
		require.Equal(t, 1, code, errOut)
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
	_, double := cloudWith(t, diskOfNode(t, usedNode(t)), nil)
	var gets atomic.Int32
	killed := make(chan struct{})
	double.Before("GetSnapshotBlock", func() {
		if gets.Add(1) == 100 {
			close(killed)
		}
	})
	cmd := exec.Command("eksnode", "audit", "--ami", cloudImage)
	require.NoError(t, cmd.Start())
	<-killed
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	double.Before("GetSnapshotBlock", nil)
	assert.Equal(t, []string{cloudSnapshot, cloudSnapshot + "/disk.raw.journal", cloudSnapshot + "/disk.raw.part"}, cached(t))
	before := double.Count().Fetched
	code, out, errOut := command(t, "", "audit", "--ami", cloudImage)
	require.Equal(t, 1, code, errOut)
	assert.Contains(t, out, "/etc/machine-id")
	assert.Less(t, double.Count().Fetched-before, int64(64<<20), "only the rest is read")
	assert.Empty(t, cached(t))
}

func TestAnExportIsTheDisk(t *testing.T) {
	disk := diskOfNode(t, usedNode(t))
	_, double := cloudWith(t, disk, nil)
	file := filepath.Join(t.TempDir(), "node.raw")
	code, out, errOut := command(t, "", "ami", "export", cloudImage, file)
	require.Equal(t, 0, code, errOut)
	assert.Regexp(t, `^`+file+` is the root volume /dev/xvda of `+cloudImage+` \(`+cloudSnapshot+` in eu-west-1\): a disk of 1 GiB with 128 blocks \(67\.1 MB\), 67\.1 MB fetched in .*
for qcow2: qemu-img convert -f raw -O qcow2 `+file+` .*/node\.qcow2\n$`, out)
	assert.Equal(t, hashOf(t, disk, 1<<30), hashOf(t, file, 0))
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, left, 1)

	for want, args := range map[string][]string{
		file + " exists; name another file, or replace this one with --force":                                                    {cloudImage, file},
		"/dev/null is not a regular file; name a new file":                                                                       {cloudImage, "/dev/null", "--force"},
		"x.qcow2: an export is a raw disk, not .qcow2; name the file .raw, and convert it afterwards, for example with qemu-img": {cloudImage, "x.qcow2"},
		"there is no folder /missing":                                       {cloudImage, "/missing/x.raw"},
		`"ami-1" is not an AMI ID such as ami-0123456789abcdef0: the part `: {"ami-1", "x.raw"},
		`"snap-1" is not a snapshot ID such as snap-0123456789abcdef0`:      {"eu-west-1:snap-1", "x.raw"},
		"eksnode ami export needs an AMI or a snapshot, and a file":         {cloudImage},
		"--region us-east-1: eu-west-1:" + cloudImage + " is in another":    {"eu-west-1:" + cloudImage, "x.raw", "--region", "us-east-1"},
	} {
		code, _, errOut := command(t, "", append([]string{"ami", "export"}, args...)...)
		assert.Equal(t, 2, code)
		assert.Contains(t, errOut, want)
	}
	calls := double.Count().Calls["GetSnapshotBlock"]
	code, out, errOut = command(t, "", "ami", "export", "eu-west-1:"+cloudSnapshot, file, "--force", "--output", "json")
	require.Equal(t, 0, code, errOut)
	assert.Equal(t, calls+128, double.Count().Calls["GetSnapshotBlock"])
	assert.JSONEq(t, `{"file": "`+file+`", "size": 1073741824, "used": 67108864, "fetched": 67108864, "snapshot": "`+cloudSnapshot+`", "region": "eu-west-1"}`, out)
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
	w := aws.New(t)
	w.Folder = t.TempDir()
	w.Serve()
	w.ServeEBS()
	out, err := w.Shell(`AWS_ENDPOINT_URL_EBS=`+os.Getenv("AWS_ENDPOINT_URL_EBS")+` AWS_DEFAULT_REGION=$AWS_REGION python3 client.py`, map[string]string{"client.py": boto3Client})
	require.NoError(t, err)
	words := strings.Fields(out)
	require.Len(t, words, 2, out)
	file := filepath.Join(t.TempDir(), "x.raw")
	code, _, errOut := command(t, "", "ami", "export", words[0], file)
	require.Equal(t, 0, code, errOut)
	assert.Equal(t, words[1], fmt.Sprintf("%x", hashOf(t, file, 0)))
}

// boto3Client writes a snapshot, reads it, and prints its ID and the SHA-256 of the
// volume.
const boto3Client = `
import base64, boto3, hashlib, random
size = 512 << 10
ebs = boto3.client('ebs')
digest = lambda data: base64.b64encode(hashlib.sha256(data).digest()).decode()
snapshot = ebs.start_snapshot(VolumeSize=1, ClientToken='boto3', Timeout=60)['SnapshotId']
random.seed(1)
blocks = {n: random.randbytes(size) for n in random.sample(range(2048), 60)}
blocks[7] = bytes(size)
for n in sorted(blocks):
    ebs.put_snapshot_block(SnapshotId=snapshot, BlockIndex=n, BlockData=blocks[n], DataLength=size, Checksum=digest(blocks[n]), ChecksumAlgorithm='SHA256')
ebs.complete_snapshot(SnapshotId=snapshot, ChangedBlocksCount=len(blocks))
read = {}
for b in ebs.list_snapshot_blocks(SnapshotId=snapshot)['Blocks']:
    read[b['BlockIndex']] = ebs.get_snapshot_block(SnapshotId=snapshot, BlockIndex=b['BlockIndex'], BlockToken=b['BlockToken'])['BlockData'].read()
assert read == blocks
volume = hashlib.sha256()
for n in range(2048):
    volume.update(read.get(n, bytes(size)))
print(snapshot, volume.hexdigest())
`

// The printed policy has the permissions for the calls, and those of KMS.
func TestThePolicyForReadingAMIsHasTheirCalls(t *testing.T) {
	w, double := cloudWith(t, diskOfNode(t, cleanNode(t)), nil)
	code, _, errOut := command(t, "", "ami", "publish", cloudImage, "--parameter", "/node")
	require.Equal(t, 0, code, errOut)
	before := w.Count()
	code, _, errOut = command(t, "", "audit", "--ami", "resolve:ssm:/node", "--skip-rules", "not-a-node")
	require.Equal(t, 0, code, errOut)
	code, _, errOut = command(t, "", "ami", "export", cloudImage, filepath.Join(t.TempDir(), "x.raw"))
	require.Equal(t, 0, code, errOut)
	made := []string{"kms:Decrypt", "kms:DescribeKey"}
	for call, n := range w.Count() {
		if n > before[call] {
			made = append(made, call)
		}
	}
	for call := range double.Count().Calls {
		made = append(made, "ebs:"+call)
	}
	slices.Sort(made)
	assert.Equal(t, awsapi.SnapshotReadActions(), made)
	for _, args := range [][]string{{"audit", "--policy"}, {"ami", "export", "--policy"}} {
		code, out, errOut := command(t, "", args...)
		require.Equal(t, 0, code, errOut)
		for _, action := range made {
			assert.Contains(t, out, `"`+action+`"`)
		}
	}
	for _, action := range []string{"ec2:DescribeImages", "ec2:DescribeSnapshots"} {
		w.Deny(action)
		_, _, errOut := command(t, "", "audit", "--ami", cloudImage)
		assert.Contains(t, errOut, "the permission "+action+" is missing")
		w.Heal()
	}
}

// Two audits of a snapshot at the same time read it once each, one after the other.
func TestAuditsOfOneSnapshotWaitForEachOther(t *testing.T) {
	_, double := cloudWith(t, diskOfNode(t, cleanNode(t)), nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	double.Before("GetSnapshotBlock", func() {
		once.Do(func() {
			close(begun)
			<-goOn
		})
	})
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
	close(goOn)
	assert.Regexp(t, `^disk: .*disk\.raw\n$`, <-first)
	require.NoError(t, second.Wait())
	assert.Equal(t, 128, double.Count().Calls["GetSnapshotBlock"], "the second audit verifies the disk of the first one")
	assert.Empty(t, cached(t))
}

// An export that was stopped goes on where it stopped.
func TestAStoppedExportGoesOn(t *testing.T) {
	disk := diskOfNode(t, usedNode(t))
	_, double := cloudWith(t, disk, nil)
	file := filepath.Join(t.TempDir(), "x.raw")
	var gets atomic.Int32
	killed := make(chan struct{})
	double.Before("GetSnapshotBlock", func() {
		if gets.Add(1) == 100 {
			close(killed)
		}
	})
	cmd := exec.Command("eksnode", "ami", "export", cloudImage, file)
	require.NoError(t, cmd.Start())
	<-killed
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	double.Before("GetSnapshotBlock", nil)
	require.NoFileExists(t, file)
	before := double.Count().Calls["GetSnapshotBlock"]
	code, _, errOut := command(t, "", "ami", "export", cloudImage, file)
	require.Equal(t, 0, code, errOut)
	assert.Less(t, double.Count().Calls["GetSnapshotBlock"]-before, 100)
	assert.Equal(t, hashOf(t, disk, 1<<30), hashOf(t, file, 0))
}
