package bed

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
)

// Command runs one command as it is, as a provisioner's RemoteCmd does. That it
// fails is an error.
func (n *Node) Command(ctx context.Context, line string) error {
	var said bytes.Buffer
	cmd := &packersdk.RemoteCmd{Command: line}
	if err := cmd.RunWithUi(ctx, n.Comm, Screen(&said)); err != nil {
		return fmt.Errorf("running %q: %w", line, err)
	}
	if cmd.ExitStatus() != 0 {
		return fmt.Errorf("running %q: exit status %d: %s", line, cmd.ExitStatus(), said.String())
	}
	return nil
}

// script is where Packer's shell provisioner puts its scripts; the real one
// has a random number in its name.
const script = "/tmp/script_4711.sh"

// Shell does what a block `provisioner "shell"` of Packer does for one script,
// with an execute_command that has sudo in it: upload, chmod, run, remove, each
// a session of its own (packer 1.15.0, provisioner/shell/provisioner.go,
// Provision and cleanupRemoteFile).
func (n *Node) Shell(ctx context.Context, lines string) error {
	if err := n.Comm.Upload(script, strings.NewReader("#!/bin/sh -eu\n"+lines), nil); err != nil {
		return fmt.Errorf("uploading a script: %w", err)
	}
	for _, line := range []string{
		"chmod 0755 " + script,
		"chmod +x " + script + "; PACKER_BUILDER_TYPE='null' PACKER_BUILD_NAME='machine'  sudo -n -- " + script,
		"rm -f " + script,
	} {
		if err := n.Command(ctx, line); err != nil {
			return err
		}
	}
	return nil
}
