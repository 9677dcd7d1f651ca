//go:build e2e

package ebs_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// audit audits a captured image, and searches every file for the names that Packer gives its keys.
func audit(t *testing.T, c *cloud, imageID string) {
	t.Helper()
	disk := lab.Disk(c.Image(imageID).Disk.Image)
	clean, said := disk.Audit(t)
	assert.True(t, clean, said)
	found, _ := disk.Sh(t, false, `grep -rlE 'packer_[0-9a-f]{8}-' "$ROOT"`)
	assert.Empty(t, found, "files with the name of a key of Packer")
}

func checkNodes(t *testing.T, c *cloud, image aws.Image, user string) {
	t.Helper()
	var key struct {
		Name     string `xml:"keyName"`
		Material string `xml:"keyMaterial"`
	}
	c.call("CreateKeyPair", &key, "KeyName", "nodes-"+image.ID, "KeyType", "ed25519")
	var launched struct {
		IDs []string `xml:"instancesSet>item>instanceId"`
	}
	begin := time.Now()
	c.call("RunInstances", &launched, "ImageId", image.ID, "MinCount", "2", "MaxCount", "2", "InstanceType", "m6i.large", "KeyName", key.Name)
	require.Len(t, launched.IDs, 2)
	machineIDs, hostKeys := map[string]bool{}, map[string]bool{}
	for _, id := range launched.IDs {
		node := c.login(t, id, user, key.Material)
		machineIDs[node.output(t, "cat /etc/machine-id")] = true
		hostKeys[node.hostKey] = true
		checkNode(t, node, key.Name)
	}
	t.Logf("two nodes of %s checked after %s", image.Name, time.Since(begin).Round(time.Second))
	assert.Len(t, machineIDs, 2, "the nodes share a machine id")
	assert.Len(t, hostKeys, 2, "the nodes share a host key")
	c.Do("ec2:TerminateInstances", "InstanceId.1", launched.IDs[0], "InstanceId.2", launched.IDs[1])
}

func checkNode(t *testing.T, node *node, keyName string) {
	t.Helper()
	failed := node.output(t, "systemctl is-system-running --wait >/dev/null; systemctl list-units --failed --plain --no-legend")
	if failed != "" {
		// A container may not mount this file system of the NFS client.
		assert.Regexp(t, `^run-rpc_pipefs\.mount [^\n]*$`, failed)
	}
	keys := strings.Split(node.output(t, "sudo sh -c 'cat /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys 2>/dev/null'"), "\n")
	for _, key := range keys {
		assert.True(t, strings.HasSuffix(key, " "+keyName), "a key of another machine: %s", key)
	}
	assert.NotEmpty(t, keys)
	assert.Equal(t, "Kubernetes v1.36.3", node.output(t, "kubelet --version"))
	assert.Contains(t, node.output(t, "containerd --version"), "containerd")
	assert.NotEqual(t, "enabled", node.output(t, "systemctl is-enabled kubelet || true"))
	assert.Equal(t, "inactive", node.output(t, "systemctl is-active kubelet || true"))
	assert.Empty(t, node.output(t, "sudo ls -A /var/lib/kubelet/pki 2>/dev/null || true"))
}

// node is an instance with an open login.
type node struct {
	client  *ssh.Client
	hostKey string
}

// login waits until an instance is running and logs in with its key.
func (c *cloud) login(t *testing.T, id, user, privateKey string) *node {
	t.Helper()
	address := c.waitRunning(t, id)
	signer, err := ssh.ParsePrivateKey([]byte(privateKey))
	require.NoError(t, err)
	n := &node{}
	config := &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			n.hostKey = ssh.FingerprintSHA256(key)
			return nil
		},
	}
	// sshd may start before cloud-init has added the key.
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		conn, err := c.lab.Dial(c.ctx, "tcp", net.JoinHostPort(address, "22"))
		if !assert.NoError(try, err) {
			return
		}
		transport, channels, requests, err := ssh.NewClientConn(conn, address, config)
		if assert.NoError(try, err) {
			n.client = ssh.NewClient(transport, channels, requests)
		}
	}, time.Minute, 500*time.Millisecond)
	t.Cleanup(func() { n.client.Close() })
	return n
}

func (c *cloud) waitRunning(t *testing.T, id string) (address string) {
	t.Helper()
	require.EventuallyWithT(t, func(try *assert.CollectT) {
		var found struct {
			Address string `xml:"reservationSet>item>instancesSet>item>privateIpAddress"`
			State   string `xml:"reservationSet>item>instancesSet>item>instanceState>name"`
		}
		c.call("DescribeInstances", &found, "InstanceId.1", id)
		require.NotEqual(t, "terminated", found.State)
		assert.Equal(try, "running", found.State)
		address = found.Address
	}, 2*time.Minute, 500*time.Millisecond)
	return address
}

func (n *node) output(t *testing.T, command string) string {
	t.Helper()
	session, err := n.client.NewSession()
	require.NoError(t, err)
	defer session.Close()
	out, err := session.CombinedOutput(command)
	require.NoError(t, err, "%s\n%s", command, out)
	return strings.TrimSpace(string(out))
}

// wrongs are wrong settings of the example, with packer's messages.
var wrongs = map[string]string{
	"region=Frankfurt":                                     "Must be a region's code",
	"name=two words":                                       "Must be 1 to 64 letters",
	`instance_types={"x86_64"="m6i.large"}`:                "Must be an instance type for each",
	`instance_types={"x86_64"="large","arm64"="x"}`:        "Must be an instance type for each",
	"instance_profile=arn:aws:iam::1:x/y":                  "Must be empty or an instance profile's name",
	"subnet_id=vpc-0123456789":                             "Must be empty or a subnet's ID",
	"ssh_interface=serial":                                 "Must be empty, \"public_ip\"",
	"ssh_source_cidrs=[]":                                  "Must name at least one range",
	"ssh_source_cidrs=[\"home\"]":                          "temporary_security_group_source_cidrs",
	"volume_size=1.5":                                      "Must be a whole number",
	"kms_key_id=mine":                                      "Must be empty, a key's ID or ARN",
	"deprecate_after_days=0":                               "Must be a whole number of days",
	"publish_under=/nodes/":                                "Must be empty or a path",
	`copies={"Ireland"=""}`:                                "Must be keys by regions' codes",
	`copies={"eu-west-1"="alias/x","eu-west-2"=""}`:        "Must have a key for every region or for none",
	`kubernetes_versions=["v1.34"]`:                        "Must be versions in full",
	`kubernetes_versions=["1.36.3","1.36.2"]`:              "Must have one version of each minor",
	row("Debian 13", "136693071363", "arm64", "/dev/xvda"): "Must have names of small letters",
	row("debian13", "amazon", "arm64", "/dev/xvda"):        "Must have accounts of 12 digits",
	row("debian13", "136693071363", "amd64", "/dev/xvda"):  "Must have the processors",
	row("debian13", "136693071363", "arm64", "xvda"):       "Must have devices as root_device",
	`checksums={"1.36.3/arm64"={"kubelet"="12"}}`:          "checksums",
	"source_url=mirror.example":                            "source_url",
}

// row is the example's matrix with one row of these values.
func row(name, owner, processor, device string) string {
	return fmt.Sprintf(`distros={"%s"={"owner"="%s","name"="x-*","processors"={"%s"="x"},"root_device"="%s","ssh_username"="admin"}}`, name, owner, processor, device)
}

// TestValidate initializes and validates every example for packer: the full matrix,
// unchanged and with a user's mistakes.
func TestValidate(t *testing.T) {
	lab.Built(t, "bin/packer-plugin-eksnode") // has the agents
	plugin := filepath.Join(t.TempDir(), "packer-plugin-eksnode")
	// packer init takes only the plugin of a release.
	testkit.In(t, repository, "go", "build", "-o", plugin,
		"-ldflags=-X github.com/eksnode/packer-plugin-eksnode/internal/version.VersionPrerelease=", "./plugin")
	all := installed(t, plugin)
	c := newAPI(t, lab.Open(t, limit, machine.Nspawn))
	d := newWorkstation(t, c, all)
	validateExamples(t, d)
	validateMatrix(t, d)
	for setting, complaint := range wrongs {
		out, err := d.run("validate", "-var", setting)
		assert.Error(t, err, setting)
		assert.Contains(t, flat(out), complaint, setting)
	}
	assert.Empty(t, c.Calls(), "packer validate must make no API call")
	assert.Zero(t, c.strays(), "a program connected to an address outside the lab")
}

// validateExamples initializes and validates the folders of templates, and checks
// their format.
func validateExamples(t *testing.T, d *workstation) {
	t.Helper()
	templates := testkit.Glob(t, repository+"/examples/*/*.pkr.hcl")
	folders := map[string]bool{}
	for _, template := range templates {
		folder, err := filepath.Abs(filepath.Dir(template))
		require.NoError(t, err)
		folders[folder] = true
	}
	require.Contains(t, folders, d.template)
	key, err := machine.NewKey("builder")
	require.NoError(t, err)
	file := filepath.Join(d.home, "key")
	require.NoError(t, os.WriteFile(file, key.PEM, 0o600))
	// Variables without defaults.
	needed := map[string][]string{"cluster": {"-var", "cluster=my-cluster"}, "github-actions": {"-var", "region=eu-central-1"}, "local": {"-var", "host=192.0.2.1", "-var", "user=admin", "-var", "private_key=" + file}}
	for folder := range folders {
		out, err := d.offer("fmt", "-check", "-diff", folder)
		assert.NoError(t, err, "%s: %s", folder, out)
		for _, what := range []string{"init", "validate"} {
			args := []string{what}
			if what == "validate" {
				args = append(args, needed[filepath.Base(folder)]...)
			}
			out, err := d.offer(append(args, folder)...)
			require.NoError(t, err, "%s: %s", folder, out)
		}
	}
}

// validateMatrix validates every cell of the example, with two versions of
// Kubernetes, copies, keys and publishing. It fails when a cell is missing.
func validateMatrix(t *testing.T, d *workstation) {
	t.Helper()
	settings := []string{
		"-var", `kubernetes_versions=["1.36.3","1.35.4"]`, "-var", "publish_under=/nodes",
		"-var", "kms_key_id=alias/images", "-var", `copies={"eu-west-1"="alias/images"}`,
	}
	cells := map[string][]string{
		"al2023": {"x86_64", "arm64"}, "arch": {"x86_64"}, "debian13": {"x86_64", "arm64"},
		"ubuntu2204": {"x86_64", "arm64"}, "ubuntu2404": {"x86_64", "arm64"},
	}
	var want []string
	for distro, processors := range cells {
		for _, processor := range processors {
			for _, version := range []string{"1.36.3", "1.35.4"} {
				want = append(want, "amazon-ebs."+distro+"-"+processor+"-"+version)
			}
		}
	}
	out, err := d.run("inspect", settings...)
	require.NoError(t, err, out)
	assert.ElementsMatch(t, want, regexp.MustCompile(`(?m)amazon-ebs\..*$`).FindAllString(out, -1))
	d.mustRun("validate", settings...)
}

// flat returns packer's output without the boxes around messages.
func flat(said string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(said)), " ")
}
