//go:build e2e && linux && !agent

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

func TestAnExportIsTheDisk(t *testing.T) {
	disk := diskOfNode(t, usedNode(t))
	w, double := cloudWith(t, disk, nil)
	w.Prompt("the test counts calls")
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
	var said bytes.Buffer
	cmd.Stderr = &said
	require.NoError(t, cmd.Start())
	<-killed
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	assert.Contains(t, said.String(), "; the same command continues with "+file+".part\n")
	double.Before("GetSnapshotBlock", nil)
	require.NoFileExists(t, file)
	before := double.Count().Calls["GetSnapshotBlock"]
	code, _, errOut := command(t, "", "ami", "export", cloudImage, file)
	require.Equal(t, 0, code, errOut)
	assert.Less(t, double.Count().Calls["GetSnapshotBlock"]-before, 100)
	assert.Equal(t, hashOf(t, disk, 1<<30), hashOf(t, file, 0))
}

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
	made := []string{"kms:Decrypt"} // EBS calls KMS itself
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
