//go:build e2e

package ebs_test

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
)

// checkNothingLeft looks for leftovers of a build that made no image.
func (c *cloud) checkNothingLeft() {
	c.t.Helper()
	count := c.Count()
	c.t.Logf("%d calls: %v", len(c.Calls()), count)
	assert.Equal(c.t, 1, count["ec2:RunInstances"], "packer ended before the machine was launched")
	assert.Zero(c.t, count["ec2:CreateImage"])
	assert.Equal(c.t, 1, count["ec2:DeleteKeyPair"])
	assert.Equal(c.t, 1, count["ec2:DeleteSecurityGroup"])
	assert.Empty(c.t, c.Inventory(region, abroad))
	assert.Empty(c.t, c.Refusals())
	assert.Zero(c.t, c.strays(), "a program connected to an address outside the lab")
}

// TestFailedBuildLeavesNothing pins a wrong checksum for the kubelet.
func TestFailedBuildLeavesNothing(t *testing.T) {
	c := newCloud(t, mirror.Options{})
	d := newWorkstation(t, c, build(t))
	pin := `checksums={"1.36.3/x86_64"={"kubelet"="` + strings.Repeat("0", 64) + `"}}`
	out, err := d.run("build", d.variables("-var", pin, "-only=amazon-ebs.al2023-x86_64-*")...)
	require.Error(t, err)
	assert.Contains(t, out, `but checksums["kubelet"] says 0000`)
	c.checkNothingLeft()
}

// TestInterruptedBuildLeavesNothing presses Ctrl-C during the download of the
// kubelet over a slow line.
func TestInterruptedBuildLeavesNothing(t *testing.T) {
	c := newCloud(t, mirror.Options{BytesPerSecond: 8 << 20})
	d := newWorkstation(t, c, build(t))
	var out bytes.Buffer
	command := d.command(append(append([]string{"build", "-only=amazon-ebs.al2023-x86_64-*"}, d.variables()...), d.template)...)
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	require.Eventually(t, func() bool {
		for _, request := range c.mirror.Requests() {
			if strings.HasSuffix(request.Path, "/kubelet") && request.Bytes > 0 {
				return true
			}
		}
		return len(ended) > 0
	}, limit, 100*time.Millisecond)
	require.Empty(t, ended, "packer ended before Ctrl-C")
	// Like a terminal, the test sends SIGINT to all processes of packer. The
	// started process would forward only SIGTERM.
	require.NoError(t, syscall.Kill(-command.Process.Pid, syscall.SIGINT))
	begin := time.Now()
	assert.Error(t, <-ended)
	t.Logf("packer ended %s after Ctrl-C and printed\n%s", time.Since(begin).Round(100*time.Millisecond), &out)
	c.checkNothingLeft()
}
