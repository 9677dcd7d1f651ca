//go:build e2e && linux && !agent

package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// importWorld is a world with the EBS direct APIs, and an own cache folder.
func importWorld(t *testing.T) (*aws.World, *ebsdirect.Double) {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return aws.NewWithEBS(t)
}

// nodeDisk makes a disk of 64 MiB that a BIOS boots, with an ext4 root. The manifest of
// the root names its contents.
func nodeDisk(t *testing.T, files map[string]string) string {
	t.Helper()
	all := map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n", "etc/machine-id": "",
		"etc/eks/eksnode/manifest.json": `{"schema": "eksnode.image/v1", "distro": "debian", "arch": "amd64", "kubernetes_version": "1.34.4", "assets": [{"id": "kubelet", "version": "1.34.4"}]}`,
	}
	maps.Copy(all, files)
	return rootDisk(t, all)
}

// rootDisk makes a disk of 64 MiB that a BIOS boots, with an ext4 root, which has the
// files.
func rootDisk(t *testing.T, files map[string]string) string {
	t.Helper()
	return testkit.DiskOf(t, files, 64, "-O", "^has_journal")
}

// importArgs are the arguments of an import of a disk that is no node.
func importArgs(disk string, more ...string) []string {
	return append([]string{"ami", "import", disk, "--ami-name", "node", "--skip-rules", "not-a-node,can-join,changed-files,assets,units"}, more...)
}

func TestAMIImportMakesAnAMI(t *testing.T) {
	w, double := importWorld(t)
	disk := nodeDisk(t, nil)
	out, _ := exits(t, 0, importArgs(disk, "--dry-run")...)
	assert.Regexp(t, `(?m)^disk: raw, volume of 1 GiB, [0-9.]+ MB in use \(\d+ blocks of 512 KiB\), x86_64, boot mode legacy-bios$`, out)
	assert.Empty(t, double.IDs())

	out, _ = exits(t, 0, importArgs(disk, "--tags", "team=a,eksnode:distro=mine", "--output", "json")...)
	made := testkit.JSON[imported](t, out)
	assert.Empty(t, made.Error)
	assert.Equal(t, "clean", string(made.Audit.Result))
	assert.Equal(t, w.Images[0].ID, made.Image.ID)
	assert.Equal(t, double.IDs(), made.Image.Snapshots)
	assert.Positive(t, made.Upload["sent"])
	assert.Equal(t, "x86_64", made.Disk.Architecture)
	assert.ElementsMatch(t, []aws.Tag{
		{Key: "eksnode:distro", Value: "mine"}, {Key: "eksnode:architecture", Value: "amd64"}, {Key: "eksnode:kubernetes-version", Value: "1.34.4"},
		{Key: "eksnode:asset:kubelet", Value: "1.34.4"}, {Key: "team", Value: "a"},
		{Key: "eksnode:digest", Value: made.Disk.Digest},
	}, w.Images[0].Tags)
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", made.Disk.Digest)
	assert.Equal(t, made.Disk.Digest, made.Audit.Machine.Digest)
	exported := filepath.Join(t.TempDir(), "node.raw")
	out, _ = exits(t, 0, "ami", "export", made.Image.ID, exported)
	assert.Contains(t, out, "\ndigest: "+made.Disk.Digest+"\n")

	// The AMI is one of yours, and its name is taken.
	_, out, _ = command(t, "", "ami", "list")
	assert.Contains(t, out, made.Image.ID)
	_, errOut := exits(t, 2, importArgs(disk)...)
	assert.Equal(t, `eksnode: --ami-name: the name "node" belongs to your AMI `+made.Image.ID+" in eu-west-1; choose another name, or replace the AMI with --force-deregister\n", errOut)

	out, _ = exits(t, 0, append(importArgs(disk, "--parent-ami", made.Image.ID), "--ami-name", "child")...)
	assert.Regexp(t, `(?m)^snapshot: snap-\w+, 0 B sent, 0 B from an earlier run, [0-9.]+ MB from the parent$`, out)
	assert.Contains(t, out, "\nAMI: "+w.Image("child").ID+" in eu-west-1\n")
}

func TestAMIImportStopsAtFindings(t *testing.T) {
	_, double := importWorld(t)
	disk := nodeDisk(t, map[string]string{"etc/machine-id": "0123456789abcdef0123456789abcdef\n"})
	out, errOut := exits(t, 1, importArgs(disk)...)
	assert.Contains(t, out, "empty    /etc/machine-id  33 B")
	assert.Equal(t, "eksnode: the audit of the disk found what an image must not have; scrub the machine before its capture\n", errOut)
	assert.Empty(t, double.IDs())
	out, _ = exits(t, 1, importArgs(disk, "--output", "json")...)
	assert.Contains(t, out, `"image": null,`)
	assert.Contains(t, out, `"result": "findings"`)
	for _, effect := range []string{"warn", "off"} {
		exits(t, 0, "ami", "import", disk, "--ami-name", effect, "--audit", effect)
	}
}

// A disk that was provisioned after its scrub is refused. The post-processor eksnode-ami
// runs the same import.
func TestAMIImportRefusesWorkAfterTheScrub(t *testing.T) {
	_, double := importWorld(t)
	record := `{"schema": "eksnode.scrubbed/v1", "tool": "0.1.0", "provisioned": true}`
	out, _ := exits(t, 1, importArgs(nodeDisk(t, map[string]string{"etc/eks/eksnode/scrubbed.json": record}))...)
	assert.Contains(t, out, "a provision ran after the scrub: make the scrub the last step")
	assert.Empty(t, double.IDs())
}

// Nothing is uploaded of a disk that cannot become an AMI.
func TestAMIImportRefusesBadDisks(t *testing.T) {
	w, double := importWorld(t)
	folder := t.TempDir()
	testkit.In(t, folder, "sh", "-ec", "head -c 2M /dev/urandom > noise.raw")
	for name, want := range map[string]string{
		"missing.raw": "no such file or directory", "": "a folder is no disk image; give the path of the file in it",
		"noise.raw": "the disk has no partition table and no Linux file system",
	} {
		out, errOut := exits(t, 2, importArgs(filepath.Join(folder, name))...)
		assert.Contains(t, errOut, want, name)
		assert.Contains(t, errOut, filepath.Join(folder, name), "the error names the disk")
		assert.Empty(t, out, name)
	}
	assert.Empty(t, w.Calls(), "the disk is checked first")
	assert.Empty(t, double.IDs())
	assert.Empty(t, testkit.Names(t, os.Getenv("XDG_CACHE_HOME")))
}

// Only root can audit.
func TestAMIImportNeedsRoot(t *testing.T) {
	_, double := importWorld(t)
	disk := nodeDisk(t, nil)
	open := t.TempDir()
	testkit.In(t, open, "sh", "-ec", fmt.Sprintf(`chmod 755 . ..; cp "%s" disk.raw; cp /proc/%d/exe eksnode; chmod 644 disk.raw`, disk, os.Getpid()))
	cmd := exec.Command(filepath.Join(open, "eksnode"), importArgs(filepath.Join(open, "disk.raw"))...)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+open)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	assert.Equal(t, "eksnode: auditing the disk image "+filepath.Join(open, "disk.raw")+
		": only root may mount a file system: run the command with sudo; with --audit off, the disk is uploaded without an audit\n", string(out))
	assert.Empty(t, double.IDs())
}

// A signal deletes the pending snapshot, or keeps it for the same command.
func TestAMIImportStopsAtSignals(t *testing.T) {
	w, double := importWorld(t)
	disk := nodeDisk(t, map[string]string{"opt/data": strings.Repeat("data", 6<<20)}) // more blocks than connections
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		for _, keep := range []bool{false, true} {
			args := importArgs(disk, fmt.Sprintf("--keep-snapshot=%t", keep))
			var errOut bytes.Buffer
			cmd := exec.Command("/proc/self/exe")
			cmd.Args, cmd.Stderr = append([]string{"eksnode"}, args...), &errOut
			// 32 blocks are sent at once: the next one says that one has arrived.
			held, release := double.Hold("PutSnapshotBlock", 32)
			defer release()
			require.NoError(t, cmd.Start())
			<-held
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			release()
			assert.Equal(t, 2, cmd.ProcessState.ExitCode())
			assert.Contains(t, errOut.String(), "eksnode: interrupted")
			assert.Empty(t, w.Images)
			if !keep {
				assert.Empty(t, double.IDs())
				continue
			}
			require.Len(t, double.IDs(), 1)
			assert.Contains(t, errOut.String(), "the pending snapshot "+double.IDs()[0]+" stays for 1h0m0s: the same upload goes on, if you start it again before\n")
			out, _ := exits(t, 0, args...)
			assert.Len(t, double.IDs(), 1)
			assert.NotContains(t, out, " 0 B from an earlier run")
			w.Images, w.Snapshots = nil, nil
			double.Delete(double.IDs()[0])
		}
	}
}
