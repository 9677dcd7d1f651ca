//go:build e2e

package join_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/ebsdirect"
	"github.com/eksnode/packer-plugin-eksnode/internal/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
)

// TestMain is also the child process that mounts a disk to audit.
func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background()); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// account is an AWS account with snapshots and images, and without instances.
type account struct {
	*aws.World
	ebs *ebsdirect.Double
}

func (w *world) openAccount() *account {
	w.t.Helper()
	a := &account{World: aws.New(w.t).Prompt("the test is about the machines of the AMI")}
	a.Folder = filepath.Join(w.Folder(), "aws")
	require.NoError(w.t, os.Mkdir(a.Folder, 0o755))
	a.Serve()
	a.ebs = a.ServeEBS()
	return a
}

// imports makes an AMI of a disk, as `eksnode ami import` does. parent is a snapshot, or
// empty.
func (w *world) imports(disk, name, parent string) amiimport.Result {
	w.t.Helper()
	made, err := amiimport.Import{
		Spec: amiimport.Spec{Name: name, ParentSnapshot: parent}, Disk: disk, Folder: w.t.TempDir(),
		Say: func(format string, args ...any) { w.step(format, args...) },
		Open: func(ctx context.Context) (*awsapi.AWS, error) {
			return awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
		},
	}.Run(w.Ctx)
	require.NoError(w.t, err)
	w.step("%s has %s, boot mode %s; %d blocks were sent", made.Image.ID, made.Upload.Snapshot.ID, made.Image.BootMode, made.Upload.Sent)
	return made
}
