//go:build e2e

package join_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"os/exec"
	"path/filepath"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// launcher starts the instances of an account in the lab, for cluster B when they have no
// instance profile.
type launcher struct {
	*world
	last *instance
}

func (l *launcher) Launch(_ context.Context, of aws.Launch) (aws.Machine, error) {
	l.last = l.launch(of.InstanceID, of.Disk.Image, cmp.Or(of.Role, l.b.role), of.UserData)
	return l.last, nil
}

// takesTheRoad requires that an account which allows only approved AMIs starts an AMI only
// between its approval and its revocation, and that its instance joins. An AMI of the node
// that joined inherits the watermark, and is exposed.
func (w *world) takesTheRoad(a *account, image *aws.Image) {
	folder := w.t.TempDir()
	eksnode := func(code int, args ...string) string {
		w.t.Helper()
		cmd := exec.CommandContext(w.Ctx, lab.Eksnode(w.t), args...)
		out, _ := cmd.CombinedOutput() // the exit code says more
		require.Equal(w.t, code, cmd.ProcessState.ExitCode(), "%q: %s", args, out)
		return string(out)
	}
	// launch is one of another account, because EC2 always allows an account's own AMIs.
	launch := func() error {
		defer func(owner string) { image.Owner = owner }(image.Owner)
		image.Owner = "210987654321"
		return a.Starts(image.ID)
	}
	a.Allowed = aws.AllowedImages{State: "enabled", Criteria: aws.WithWatermarks(aws.Account + ":eksnode/audited")}
	testkit.Run(w.t, "sh", "-ec", `cd "$0"; openssl genpkey -quiet -algorithm ed25519 -out key.pem
openssl pkey -in key.pem -pubout -out key.pub`, folder)
	statement := filepath.Join(folder, "node.intoto.jsonl")
	checked := []string{"--statement", statement, "--key", filepath.Join(folder, "key.pub")}

	eksnode(0, "ami", "attest", image.ID, "--key", filepath.Join(folder, "key.pem"), "--statement", statement)
	require.ErrorContains(w.t, launch(), "InvalidAMIID.NotFound", "the AMI is not approved yet")
	eksnode(0, append([]string{"ami", "approve", image.ID, "--reason", "the audit passed"}, checked...)...)
	require.NoError(w.t, launch())
	w.step("the AMI is attested and approved, and may start")

	started := &launcher{world: w}
	a.Machines = started
	a.Do("ec2:RunInstances", "ImageId", image.ID, "MinCount", "1", "MaxCount", "1",
		"UserData", base64.StdEncoding.EncodeToString(w.b.nodeConfig()))
	w.works(w.b, started.last, "approved", "word-of-b")
	w.record("AMI with the watermark", "NodeConfig", "joins", "")
	a.Do("ec2:StopInstances", "InstanceId.1", started.last.InstanceID())
	a.Do("ec2:CreateImage", "InstanceId", started.last.InstanceID(), "Name", "captured")

	captured := a.Image("captured")
	assert.Equal(w.t, image.Watermarks, captured.Watermarks, "EC2 lets the AMI of an instance inherit them")
	assert.Contains(w.t, eksnode(1, append([]string{"ami", "verify", captured.ID}, checked...)...),
		"the AMI was made from the instance "+started.last.InstanceID())
	assert.Contains(w.t, eksnode(1, "audit", "--ami", captured.ID), "kubelet-pki")

	eksnode(0, "ami", "revoke", image.ID, "--reason", "a test")
	require.ErrorContains(w.t, launch(), "InvalidAMIID.NotFound", "the AMI is revoked")
}
