package disk_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/build/diskbuild"
	"github.com/eksnode/packer-plugin-eksnode/plugin/disk"
)

func TestMain(m *testing.M) {
	if code, child := diskbuild.OpenChild(context.Background()); child {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// base makes a disk of a system with busybox as its only program.
func base(t *testing.T) string {
	t.Helper()
	root, disk := t.TempDir(), filepath.Join(t.TempDir(), "base.raw")
	fill(t, root)
	testkit.RootDisk(t, disk, root, 68)
	return disk
}

// fill makes a system with busybox as its only program.
func fill(t *testing.T, root string) {
	t.Helper()
	testkit.Busybox(t, filepath.Join(root, "bin"), "sh", "cat", "chmod", "find", "mkdir", "sleep", "touch")
	hosttest.Lay(t, root, map[string]string{"proc/": "", "sys/": "", "dev/": "", "run/": "", "root/": "",
		"etc/os-release": "ID=debian\n", "etc/resolv.conf": "", "tmp/of-the-base": ""})
}

// build builds the disk with provision as its provisioners. The fields are right.
func build(t *testing.T, fields map[string]any,
	provision func(context.Context, packersdk.Communicator) error) (packersdk.Artifact, error) {
	t.Helper()
	_, _, err := new(disk.Builder).Prepare(fields)
	require.NoError(t, err)
	return tryBuild(t, fields, provision)
}

func tryBuild(t *testing.T, fields map[string]any,
	provision func(context.Context, packersdk.Communicator) error) (packersdk.Artifact, error) {
	t.Helper()
	b := new(disk.Builder)
	if _, _, err := b.Prepare(fields); err != nil {
		return nil, err
	}
	hook := &packersdk.DispatchHook{
		Mapping: map[string][]packersdk.Hook{packersdk.HookProvision: {provisioners(provision)}},
	}
	return b.Run(t.Context(), packersdk.TestUi(t), hook)
}

type provisioners func(context.Context, packersdk.Communicator) error

func (p provisioners) Run(ctx context.Context, _ string, _ packersdk.Ui, comm packersdk.Communicator, _ any) error {
	return p(ctx, comm)
}

// command runs a command and returns its exit code and outputs.
func command(ctx context.Context, t *testing.T, comm packersdk.Communicator, text, in string) (int, string, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := &packersdk.RemoteCmd{Command: text, Stdin: strings.NewReader(in), Stdout: &out, Stderr: &errOut}
	require.NoError(t, comm.Start(ctx, cmd))
	return cmd.Wait(), out.String(), errOut.String()
}

func TestProvisionersWorkInTheCopy(t *testing.T) {
	base := base(t)
	before := []byte(testkit.Content(t, base))
	here, image := t.TempDir(), filepath.Join(t.TempDir(), "node.raw")
	require.NoError(t, os.MkdirAll(filepath.Join(here, "up/deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(here, "up/deep/file"), []byte("text"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(here, "up/left-out"), nil, 0o600))
	fields := map[string]any{"base": base, "image": image}
	artifact, err := build(t, fields, func(ctx context.Context, comm packersdk.Communicator) error {
		code, out, errOut := command(ctx, t, comm, `cat; echo "$HOME $USER $PWD"; echo bad >&2; touch /made; exit 7`, "in ")
		assert.Equal(t, []any{7, "in /root root /\n", "bad\n"}, []any{code, out, errOut})
		code, _, _ = command(ctx, t, comm, "kill -9 $$", "")
		assert.Equal(t, 137, code)
		// A process in the background does not hold the command.
		code, _, _ = command(ctx, t, comm, "sleep 3600 &", "")
		assert.Zero(t, code)
		stopped, stop := context.WithCancel(ctx)
		in, out2 := io.Pipe()
		defer in.Close()
		waiting := &packersdk.RemoteCmd{Command: "echo begun; sleep 3600", Stdout: out2}
		require.NoError(t, comm.Start(stopped, waiting))
		_, err := in.Read(make([]byte, 6)) // the line
		require.NoError(t, err)
		stop()
		assert.Equal(t, packersdk.CmdDisconnect, waiting.Wait())

		require.NoError(t, comm.UploadDir("/tmp/up", filepath.Join(here, "up")+"/", []string{"left-out"}))
		_, out, _ = command(ctx, t, comm, "cd /tmp; find . -type f; busybox stat -c %a up/deep/file", "")
		assert.ElementsMatch(t, []string{"./of-the-base", "./up/deep/file", "750"}, strings.Fields(out))
		var down bytes.Buffer
		require.NoError(t, comm.Download("/tmp/up/deep/file", &down))
		assert.Equal(t, "text", down.String())
		require.NoError(t, comm.DownloadDir("/tmp/up", here, nil))
		assert.FileExists(t, filepath.Join(here, "deep/file"))
		require.ErrorContains(t, comm.Download("/none", &down), "downloading /none: exit code 1: cat: can't open '/none'")
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, []string{image}, artifact.Files())
	assert.True(t, bytes.Equal(before, []byte(testkit.Content(t, base))), "the base image has changed")
	out := testkit.Run(t, "sh", "-ec", `dd if="$1" of="$1.part" bs=1M skip=1 status=none
e2fsck -fn "$1.part"
debugfs -R "ls -p /" "$1.part"`, "sh", image)
	assert.Contains(t, out, "/made/")

	b := new(disk.Builder)
	_, _, err = b.Prepare(fields)
	require.NoError(t, err)
	_, err = b.Run(t.Context(), packersdk.TestUi(t), nil)
	require.EqualError(t, err, image+" exists; name another file, or replace this one with packer build -force")
	require.NoError(t, artifact.Destroy())
	assert.NoFileExists(t, image)
}

// The root gets all of a larger disk, other partitions are where the fstab says, and what
// provisioners removed takes no space.
func TestTheDiskGrows(t *testing.T) {
	for _, of := range []string{"ext4", "ext4 running", "xfs running", "btrfs running"} {
		t.Run(of, func(t *testing.T) {
			kind, running, _ := strings.Cut(of, " ")
			disk, image := grown(t, kind, running != ""), filepath.Join(t.TempDir(), "node.raw")
			_, err := build(t, map[string]any{"base": disk, "image": image, "disk_size": 1},
				func(ctx context.Context, comm packersdk.Communicator) error {
					_, out, errOut := command(ctx, t, comm, `busybox df -m / | busybox awk 'END {print ($2 > 600)}'
busybox grep -c " /var ext4 " /proc/mounts; busybox dd if=/dev/urandom of=/large bs=1M count=64; busybox sync; busybox rm /large`, "")
					assert.Equal(t, "1\n1\n", out, errOut)
					return nil
				})
			require.NoError(t, err)
			var made unix.Stat_t
			require.NoError(t, unix.Stat(image, &made))
			assert.Less(t, made.Blocks*512, int64(60<<20))
		})
	}
}

// grown makes a disk with /var on its first partition, and a root of a kind on its second. The
// root of a running machine has changes in its journal. No other process has the mount.
func grown(t *testing.T, kind string, running bool) string {
	t.Helper()
	root, disk := t.TempDir(), filepath.Join(t.TempDir(), "base.raw")
	script := `mkdir "$2/var"; echo LABEL=var /var ext4 defaults 0 2 >"$2/etc/fstab"
truncate -s 16M "$1.var"; mkfs.ext4 -q -L var "$1.var"
truncate -s 400M "$1.part"; mkfs.$3 -q "$1.part"; mount -o loop "$1.part" /mnt
tar -C "$2" -c . | tar -C /mnt -x; sync -f /mnt; cp "$1.part" "$1.true"; umount /mnt; mv "$1.part" "$1.false"
truncate -s 420M "$1"; printf 'label: gpt\nsize=16M\nsize=400M, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709\n' | sfdisk -q "$1"
dd if="$1.var" of="$1" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$1.$4" of="$1" bs=1M seek=17 conv=notrunc,sparse status=none; rm "$1".*`
	fill(t, root)
	testkit.Run(t, "unshare", "--mount", "sh", "-ec", script, "sh", disk, root, kind, strconv.FormatBool(running))
	return disk
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	image := filepath.Join(t.TempDir(), "node.raw")
	broken := errors.New("broken")
	_, err := build(t, map[string]any{"base": base(t), "image": image}, func(context.Context, packersdk.Communicator) error { return broken })
	require.ErrorIs(t, err, broken)
	assert.Empty(t, testkit.Names(t, filepath.Dir(image)))
}

// A base image that cannot become a disk is refused. Nothing stays, and the base image is as
// it was.
func TestFaultsLeaveNothing(t *testing.T) {
	var faults map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/faults.yaml")), &faults))
	for why, spoil := range faults {
		t.Run(why, func(t *testing.T) {
			base, image := base(t), filepath.Join(t.TempDir(), "node.raw")
			fields := map[string]any{"base": base, "image": image}
			if strings.Contains(why, "checksum") {
				fields["base_checksum"] = strings.Fields(testkit.Run(t, "sha512sum", base))[0]
			}
			said := testkit.Run(t, "sh", "-ec", spoil, "sh", base)
			if device := strings.TrimSpace(said); strings.HasPrefix(device, "/dev/loop") {
				defer exec.Command("losetup", "--detach", device).Run()
			}
			before := testkit.Sum(t, base)
			_, err := tryBuild(t, fields, nil)
			require.ErrorContains(t, err, why)
			assert.Equal(t, before, testkit.Sum(t, base), "the base image has changed")
			assert.Empty(t, testkit.Names(t, filepath.Dir(image)))
		})
	}
}

// What the programs write does not fit where the disk image is.
func TestAFullFolderIsAnError(t *testing.T) {
	folder := t.TempDir()
	testkit.Run(t, "mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder)
	defer exec.Command("umount", folder).Run()
	_, err := build(t, map[string]any{"base": base(t), "image": filepath.Join(folder, "node.raw")},
		func(ctx context.Context, comm packersdk.Communicator) error {
			command(ctx, t, comm, "busybox dd if=/dev/urandom of=/large bs=1M count=32", "")
			return nil
		})
	require.ErrorContains(t, err, "the folder of the disk image may be full")
	assert.Empty(t, testkit.Names(t, folder))
}

// Two builds have one base image at the same time. The second one to end does not replace
// the disk image of the first.
func TestTwoBuildsAtOnce(t *testing.T) {
	base, image := base(t), filepath.Join(t.TempDir(), "node.raw")
	_, err := build(t, map[string]any{"base": base, "image": image},
		func(context.Context, packersdk.Communicator) error {
			_, err := build(t, map[string]any{"base": base, "image": image},
				func(context.Context, packersdk.Communicator) error { return nil })
			return err
		})
	require.ErrorContains(t, err, "another program has made this file since the start")
	assert.Len(t, testkit.Names(t, filepath.Dir(image)), 1)
}
