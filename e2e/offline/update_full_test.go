//go:build e2e && full

package offline_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/e2e/mirror"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/internal/ami/amiimport"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskaudit"
)

// A fixed release of runc reaches an AMI: a new lock file, a build without a machine, and an
// import with the AMI before as parent. The test reports how long that takes, and that the
// new AMI has the fixed program alone.
func TestFromALockToAnAMI(t *testing.T) {
	b := open(t)
	folder := t.TempDir()
	base, served := filepath.Join(folder, "base.raw"), filepath.Join(folder, "mirror")
	require.NoError(t, machine.MakeDisk(b.Ctx, b.Root, base))
	assets := lab.Assets(t)
	testkit.Run(t, "cp", "--archive", assets.Folder, served)
	const fixed, mark = "9.9.9", "the release that fixes the defect"
	for _, a := range assets.Assets {
		if strings.HasSuffix(a.URL, "/runc."+runtime.GOARCH) {
			content, err := os.ReadFile(a.File)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "runc"), append(content, mark...), 0o755))
		}
	}
	require.NoError(t, mirror.Lay(b.Ctx, served,
		mirror.Of(tools.NameRunc, fixed, runtime.GOARCH, filepath.Join(folder, "runc"))))
	source := []string{"--kubernetes-version", lab.Kubelet, "--source-url",
		b.ServeMirror(t, b.Port("8081"), served, mirror.Options{}).URL(), "--cache-folder", filepath.Join(folder, "cache")}
	run := func(args ...string) {
		t.Helper()
		began := time.Now()
		testkit.Output(t, b.Resolving(append(append([]string{lab.Eksnode(t)}, args...), source...)))
		t.Logf("%s: %v", args[0], time.Since(began))
	}
	_, double := aws.NewWithEBS(t)
	sums := t.TempDir()
	image := func(name, parent string, more ...string) (made amiimport.Result, marks int) {
		t.Helper()
		lock, disk := filepath.Join(folder, name+".json"), filepath.Join(folder, name+".raw")
		run(append([]string{"lock", "--allow-http", "--arch", runtime.GOARCH, "--file", lock}, more...)...)
		run(append([]string{"build", "--base", base, "--lock-file", lock, "-o", disk}, more...)...)
		made, err := amiimport.Import{
			Spec: amiimport.Spec{Name: name, ParentAMI: parent}, Disk: disk, Folder: sums, Say: t.Logf,
			Open: func(ctx context.Context) (*awsapi.AWS, error) {
				return awsapi.Open(ctx, awsapi.Options{Settle: time.Millisecond, Pause: time.Millisecond})
			},
		}.Run(b.Ctx)
		require.NoError(t, err)
		content, err := double.Volume(made.Upload.Snapshot.ID, false)
		require.NoError(t, err)
		for buffer := make([]byte, 1<<20); ; {
			n, err := content.Read(buffer)
			marks += bytes.Count(buffer[:n], []byte(mark))
			if err != nil {
				return made, marks
			}
		}
	}
	first, marks := image("first", "")
	assert.Zero(t, marks)
	began := time.Now()
	second, marks := image("second", first.Image.ID, "--versions", "runc="+fixed)
	assert.Equal(t, 1, marks)
	t.Logf("from a lock file to an AMI: %v; %d of %d blocks were sent", time.Since(began), second.Upload.Sent,
		first.Upload.Sent)
	assert.Less(t, second.Upload.Sent, first.Upload.Sent, "blocks of the parent are not sent")
}

// TestMain is also the child process that mounts a disk to audit.
func TestMain(m *testing.M) {
	if code, child := diskaudit.Child(context.Background(), nil); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}
