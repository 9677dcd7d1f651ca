//go:build packer && linux

package main_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// nodeDisk makes a disk of 64 MiB with a boot loader's mark and an ext4 root. Without
// the rule not-a-node, the audit finds only the added files.
func nodeDisk(t *testing.T, path string, added map[string]string) {
	t.Helper()
	files := testkit.CleanNode(t)
	maps.Copy(files, added)
	testkit.RootDisk(t, path, testkit.Programs(t, t.TempDir(), files), 64)
}

// account is AWS for a build.
type account struct {
	*aws.World
	ebs *ebsdirect.Double
}

func newAccount(t *testing.T) account {
	t.Helper()
	w, double := aws.NewWithEBS(t)
	return account{w.Prompt("the plugin pauses for seconds, and packer is the test"), double}
}

// build runs `packer build` with the account, and returns the output as one line.
func (d *workstation) build(args ...string) (string, error) {
	out, err := d.atAWS(append(append([]string{"build"}, args...), ".")...).CombinedOutput()
	return flat(string(out)), err
}

// atAWS is a packer command with the account of the test.
func (d *workstation) atAWS(args ...string) *exec.Cmd {
	cmd := d.command(args...)
	for _, one := range os.Environ() {
		if strings.HasPrefix(one, "AWS_") {
			cmd.Env = append(cmd.Env, one)
		}
	}
	return cmd
}

func importing(source, fields, more string) string {
	if !strings.Contains(fields, `audit = "off"`) {
		fields += "\nskip_rules = [\"not-a-node\"]"
	}
	return source + `
build {
  sources = ["null.x"]
  post-processors {
    post-processor "eksnode-ami" {
      ami_name = "node"
      ` + fields + `
    }
    ` + more + `
  }
}`
}

const nullSource = `source "null" "x" { communicator = "none" }`

// A disk that was built of an AMI has it as parent, so that only what changed is sent.
func TestABuildBeginsWithAnAMI(t *testing.T) {
	d := withPlugin(t)
	a := newAccount(t)
	require.NoError(t, base.Install(t.Context(), t.Output(), "busybox-static"))
	shell := testkit.Content(t, "/bin/busybox")
	folders := map[string]string{"bin/sh": shell, "proc/x": "", "sys/x": "", "dev/x": "", "run/x": "", "tmp/x": "",
		"etc/resolv.conf": ""}
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), folders)
	made := func(source, name, more string) (string, *aws.Image) {
		d.template(source + `
build {
  sources = ["eksnode-disk.x"]
  post-processor "eksnode-ami" {
    ami_name   = "` + name + `"
    skip_rules = ["not-a-node", "temporary-files", "resolv-conf"]
    ` + more + `
  }
}`)
		said, err := d.build()
		require.NoError(t, err, said)
		require.NotNil(t, a.Image(name), said)
		return said, a.Image(name)
	}
	_, first := made(`source "eksnode-disk" "x" {
  base  = "disk.raw"
  image = "first.raw"
}`, "first", "")
	source := `source "eksnode-disk" "x" {
  base         = "` + first.ID + `"
  image        = "second.raw"
  cache_folder = "cache"
}`
	said, second := made(source, "second", "")
	assert.Regexp(t, `is snap-\w+: (0\.5|1\.0|1\.6) MB of 1\d\.\d MB sent`, said, "mounting changes a few blocks")
	assert.Equal(t, first.Devices[0].Snapshot, a.ebs.Find(second.Devices[0].Snapshot).Parent)
	require.NoError(t, os.Remove(filepath.Join(d.folder, "second.raw")))
	said, third := made(source, "third", `parent_snapshot = "`+second.Devices[0].Snapshot+`"`)
	assert.Equal(t, second.Devices[0].Snapshot, a.ebs.Find(third.Devices[0].Snapshot).Parent, said)
}

// packer builds a disk, and the plugin makes an AMI of it, with copies, a parameter and
// a manifest.
func TestADiskOfABuildBecomesAnAMI(t *testing.T) {
	d := withPlugin(t)
	a := newAccount(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	d.template(testkit.Content(t, "testdata/file-to-ami.hcl"))
	require.NoError(t, os.Mkdir(filepath.Join(d.folder, "output"), 0o755))
	said, err := d.offline("validate", ".")
	require.NoError(t, err, said)
	said, err = d.build()
	require.NoError(t, err, said)
	node := a.Image("x-file-x")
	require.NotNil(t, node)
	assert.Equal(t, "built by file", node.Description)
	assert.Equal(t, "legacy-bios", node.BootMode)
	assert.Contains(t, node.Tags, aws.Tag{Key: "builder", Value: "file"})
	at := slices.IndexFunc(a.Images, func(i *aws.Image) bool { return i.Region == "us-east-1" })
	require.GreaterOrEqual(t, at, 0)
	there := a.Images[at]
	id := aws.Region + ":" + node.ID + ",us-east-1:" + there.ID
	assert.Equal(t, node.ID, a.Parameter(aws.Region, "/nodes/1.34").Value)
	assert.Equal(t, there.ID, a.Parameter("us-east-1", "/nodes/1.34").Value)
	assert.Contains(t, said, "audit clean: ")
	assert.Contains(t, said, "AMIs were created: "+aws.Region+": "+node.ID+" us-east-1: "+there.ID)

	text := testkit.Content(t, filepath.Join(d.folder, "packer-manifest.json"))
	var manifest struct {
		Builds []struct {
			ID   string `json:"artifact_id"`
			Type string `json:"builder_type"`
		} `json:"builds"`
	}
	require.NoError(t, json.Unmarshal([]byte(text), &manifest))
	require.Len(t, manifest.Builds, 1)
	assert.Equal(t, id, manifest.Builds[0].ID)
	assert.NoFileExists(t, filepath.Join(d.folder, "output", "node.raw"), "keep_input_artifact is false")

	policy, err := awsapi.ImportPolicy(awsapi.Scope{})
	require.NoError(t, err)
	for call := range a.Count() {
		if !strings.HasPrefix(call, "ssm:") { // of eksnode-publish
			assert.Contains(t, aws.ActionsOf(t, policy), call)
		}
	}
}

// Packer destroys the AMI when a later post-processor replaces it.
func TestAReplacedAMIIsRemoved(t *testing.T) {
	d := withPlugin(t)
	a := newAccount(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	d.template(importing(nullSource, `disk = "disk.raw"
ami_regions = ["us-east-1"]`, `post-processor "artifice" {
  files               = ["disk.raw"]
  keep_input_artifact = false
}`))
	said, err := d.build()
	require.NoError(t, err, said)
	assert.Empty(t, a.Images)
	assert.Empty(t, a.ebs.IDs())
	assert.Empty(t, a.Snapshots)
}

func TestFailedImportsNameTheCause(t *testing.T) {
	d := withPlugin(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	nodeDisk(t, filepath.Join(d.folder, "joined.raw"), map[string]string{
		"var/lib/kubelet/pki/kubelet-client-current.pem": "certificate",
	})
	for name, c := range map[string]struct {
		fields  string
		happens func(account)
		want    []string
	}{
		"findings": {`disk = "joined.raw"`, nil, []string{
			"kubelet-pki: would remove /var/lib/kubelet/pki/kubelet-client-current.pem",
			"the audit of the disk found what an image must not have; scrub the machine before its capture",
		}},
		"a missing permission": {`disk = "disk.raw"`, func(a account) { a.Deny("ec2:RegisterImage") }, []string{
			"registering the image node: the permission ec2:RegisterImage is missing",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t)
			if c.happens != nil {
				c.happens(a)
			}
			d.template(importing(nullSource, c.fields, ""))
			said, err := d.build()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, said)
			assert.Equal(t, 1, exit.ExitCode())
			for _, want := range c.want {
				assert.Contains(t, said, want)
			}
			assert.Empty(t, a.ebs.IDs())
			assert.Empty(t, a.Images)
		})
	}
}

// Packer deletes the builder's files when the first post-processor fails. A manifest
// beside it keeps them, as the page says.
func TestAManifestKeepsTheDiskOfAFailedImport(t *testing.T) {
	d := withPlugin(t)
	a := newAccount(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	source := "source \"file\" \"x\" {\n  source = \"disk.raw\"\n  target = \"node.raw\"\n}"
	d.template(strings.Replace(importing(source, "", ""), "null.x", "file.x", 1))
	a.Deny("ec2:RegisterImage")
	said, err := d.build()
	require.Error(t, err, said)
	assert.NoFileExists(t, filepath.Join(d.folder, "node.raw"), said)
	d.template(strings.Replace(importing(source, "", "")+"\n",
		"null.x\"]", "file.x\"]\n  post-processor \"manifest\" {}", 1))
	said, err = d.build()
	require.Error(t, err, said)
	assert.FileExists(t, filepath.Join(d.folder, "node.raw"), said)
}

// A user who cannot mount gets the error when the build starts, not after it.
func TestTheAuditNeedsRootAtTheStart(t *testing.T) {
	plugin := buildPlugin(t, "0.1.0", "")
	d := newWorkstation(t)
	d.folder = openFolder(t)
	packer := testkit.Content(t, d.packer)
	d.packer = filepath.Join(d.folder, "packer")
	require.NoError(t, os.WriteFile(d.packer, []byte(packer), 0o755))
	d.install(plugin)
	a := newAccount(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	run := func(verb, fields string) (string, error) {
		d.template(importing(nullSource, `disk = "disk.raw"`+"\n"+fields, ""))
		testkit.Run(t, "chown", "-R", "65534:65534", d.folder)
		cmd := d.atAWS(verb, ".")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		return flat(string(out)), err
	}
	said, err := run("validate", "")
	require.NoError(t, err, said)
	said, err = run("build", "")
	require.Error(t, err, said)
	assert.Contains(t, said, `audit: only root may mount a file system: run the command with sudo; with audit = "off", the disk is uploaded without an audit`)
	assert.NotContains(t, said, "Importing the disk image", "the build must not begin")
	assert.Empty(t, a.ebs.IDs())
	said, err = run("build", `audit = "off"`+"\nami_architecture = \"x86_64\"")
	require.NoError(t, err, said)
	assert.NotNil(t, a.Image("node"))
}

// openFolder is a folder that every user can reach.
func openFolder(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "eksnode-packer-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// On Ctrl-C, the pending snapshot is deleted.
func TestAnInterruptedImportLeavesNothing(t *testing.T) {
	d := withPlugin(t)
	a := newAccount(t)
	nodeDisk(t, filepath.Join(d.folder, "disk.raw"), nil)
	d.template(importing(nullSource, `disk = "disk.raw"`, ""))
	a.ebs.Fail("PutSnapshotBlock", 1_000_000,
		ebsdirect.Failure{Status: 500, Code: "InternalServerException", Message: "later"})
	cmd := d.atAWS("build", ".")
	log := d.atTerminal(cmd)
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { return len(a.ebs.IDs()) > 0 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)) // a terminal signals the whole process group
	require.Error(t, cmd.Wait())
	said := testkit.Content(t, log)
	require.Eventually(t, func() bool { return len(a.ebs.IDs()) == 0 }, time.Minute, 10*time.Millisecond, said)
}
