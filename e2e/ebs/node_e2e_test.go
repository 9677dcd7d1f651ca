//go:build e2e

package ebs_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
)

// auditScript mounts the file system of the disk $1 at $2, audits it with the
// command $3, and searches every file for the names that Packer gives its keys.
const auditScript = `
mount -o ro,loop,offset=1048576 "$1" "$2"
"$3" audit --root "$2" || status=$?
if grep -rlE 'packer_[0-9a-f]{8}-' "$2"; then
	echo 'the files above name a key of Packer'
	status=1
fi
exit ${status:-0}`

// audit audits a captured image, in a mount namespace that ends with the
// command.
func audit(t *testing.T, c *cloud, eksnode, imageID string) {
	t.Helper()
	mountPoint := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.Mkdir(mountPoint, 0o700))
	out, err := exec.CommandContext(c.ctx, "unshare", "--mount", "--propagation", "private",
		"sh", "-ec", auditScript, "audit", c.Image(imageID).Disk.Image, mountPoint, eksnode).CombinedOutput()
	assert.NoError(t, err, string(out))
	assert.Contains(t, string(out), "PASS")
}

// checkNodes launches two nodes from an image.
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

// waitRunning returns the address of an instance once it is running.
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

// output runs a command that must succeed and returns its output.
func (n *node) output(t *testing.T, command string) string {
	t.Helper()
	session, err := n.client.NewSession()
	require.NoError(t, err)
	defer session.Close()
	out, err := session.CombinedOutput(command)
	require.NoError(t, err, "%s\n%s", command, out)
	return strings.TrimSpace(string(out))
}
