//go:build linux

package firstboot

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// inRoot and inside mark a test process that runs in a machine's root.
const (
	inRoot = "in-root"
	inside = "EKSNODE_TEST_INSIDE"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == inRoot {
		if err := enter(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "entering the root:", err)
			os.Exit(1)
		}
		os.Args = append(os.Args[:1], os.Args[3:]...)
	}
	os.Exit(m.Run())
}

// enter makes a folder this process's root, with the kernel's /proc and
// /dev/null. The root is a mount, so that it is the first entry of the mount
// table.
func enter(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, name := range []string{"", "/proc", os.DevNull} {
		from := name
		if name == "" {
			from = root
		}
		if err := unix.Mount(from, filepath.Join(root, name), "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return err
		}
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	return os.Chdir("/")
}

// onMachine runs the calling test again, in the root of a provisioned machine.
func onMachine(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inside) != "" {
		body(t)
		return
	}
	root := t.TempDir()
	provisioned(t, root)
	top, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.Command("/proc/self/exe", inRoot, root, "-test.run", "^"+top+"$", "-test.v")
	cmd.Env = []string{"PATH=/usr/bin", "TMPDIR=/tmp", inside + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	out := testkit.Output(t, cmd)
	t.Log(out)
}

// provisioned makes the machine.
func provisioned(t *testing.T, root string) {
	t.Helper()
	busybox := []byte(testkit.Content(t, "/bin/busybox"))
	var m manifest.Manifest
	for id, version := range map[string]string{"kubelet": "1.34.4", "containerd": "2.1.4"} {
		m.Assets = append(m.Assets, manifest.Asset{ID: id, Version: version, Files: []manifest.File{{Path: "/usr/bin/" + id, Size: int64(len(script("")))}}})
	}
	files := map[string]string{
		"etc/os-release": "ID=debian\n", "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/hosts": "127.0.0.1 localhost\n", "etc/fstab": "",
		"sys/fs/cgroup/cgroup.controllers": "", "sys/class/net/.keep": "", "run/systemd/system/.keep": "", "proc/.keep": "", "dev/null": "", "dev/md/.keep": "", "fake/active/.keep": "", "tmp/.keep": "", "root/.keep": "",
		"usr/lib/systemd/system/systemd-resolved.service": "[Unit]\n", "usr/lib/systemd/system/cloud-init.service": "[Unit]\n",
		"etc/eks/pause.tar": "image", "var/lib/containerd/io.containerd.content.v1.content/blobs/sha256/0": "kept", "var/lib/kubelet/seccomp/profile.json": "kept",
		"etc/systemd/system/var-lib-etcd.mount":                      "[Mount]\nWhat=/dev/disk/by-label/etcd\nWhere=/var/lib/etcd\n",
		"etc/systemd/system/containerd.service.d/10-slice.conf":      "[Service]\nSlice=runtime.slice\n",
		"etc/kubernetes/kubelet/config.json.d/90-operators-own.conf": "{}",
	}
	record := func(path, content string) {
		files[path[1:]] = content
		m.Templates = append(m.Templates, manifest.Template{Path: path, Mode: 0o644, Content: content, SHA256: manifest.Sum([]byte(content))})
	}
	for _, tmpl := range templates.All() {
		record(tmpl.Path, string(tmpl.Content))
	}
	record("/etc/eks/image-credential-provider/config.json", `{"kind":"CredentialProviderConfig"}`)
	// A user's edit, which makes bootstrap.sh fill in the whole template.
	files[templates.ContainerdConfig[1:]] += "# an operator's\n"
	text, err := m.Encode()
	require.NoError(t, err)
	files[manifest.Path[1:]] = string(text)
	for name, text := range programs {
		files["usr/bin/"+name] = script(text)
	}
	files["usr/bin/busybox"] = string(busybox)
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755))
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(name, "usr/bin/") {
			mode = 0o755
		}
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(content), mode))
	}
	for _, name := range applets {
		require.NoError(t, os.Symlink("busybox", filepath.Join(root, "usr/bin", name)))
	}
	require.NoError(t, os.Symlink("/usr/bin/ecr-credential-provider", filepath.Join(root, "etc/eks/image-credential-provider/ecr-credential-provider")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, wants), 0o755))
	require.NoError(t, os.Symlink("/usr/lib/systemd/system/containerd.service", filepath.Join(root, wants, "containerd.service")))
}

// script returns a program's file.
func script(text string) string { return "#!/usr/bin/busybox sh\n" + text + "\n" }

// start gives the machine a new instance's empty disks; no service runs yet.
func start(t *testing.T) {
	t.Helper()
	for _, gone := range []string{"/run/eksnode", "/dev/md/kubernetes", "/sys/block", active} {
		require.NoError(t, os.RemoveAll(gone))
	}
	require.NoError(t, os.MkdirAll(active, 0o755))
	require.NoError(t, os.MkdirAll("/dev/disk/by-id", 0o755))
	for _, name := range []string{"nvme1n1", "nvme2n1"} {
		require.NoError(t, os.WriteFile("/dev/"+name, make([]byte, 128<<10), 0o600))
		err := os.Symlink("../../"+name, "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"+name)
		require.True(t, err == nil || os.IsExist(err), err)
	}
}

// volatile matches paths that a running machine has and an image lacks, and
// this test's own files.
var volatile = []string{"/run", "/proc", "/dev", "/sys", "/fake", "/tmp"}

// disk records every file, link and folder of the machine.
func disk(t *testing.T) (files, folders lab.Tree) {
	t.Helper()
	files, folders = lab.Tree{}, lab.Tree{}
	skip := func(name string) bool { return slices.Contains(volatile, name) }
	files.Note(t, "/", "", skip, func(_, path string) string { return testkit.Content(t, path) })
	for name := range files {
		if info, err := os.Lstat("/" + name); assert.NoError(t, err) && info.IsDir() {
			folders[name] = files[name]
			delete(files, name)
		}
	}
	return files, folders
}

const (
	wants  = "/etc/systemd/system/multi-user.target.wants"
	active = "/fake/active" // a file for each running unit
)

// applets are the machine's other programs, by busybox.
var applets = []string{"cat", "cp", "dd", "ln", "mkdir", "mount", "rm", "sed", "sh", "tr", "truncate", "umount"}

// programs are scripts instead of programs that need devices and a running
// systemd.
var programs = map[string]string{
	"kubelet": "", "containerd": "", "ecr-credential-provider": "", "udevadm": "",
	"systemctl": `verb=$1; shift
setting() { sed -n "s/^$2=//p" "/etc/systemd/system/$1"; }
for unit; do
  case $verb:$unit in
  *:--*) ;;
  show:*)
    state=inactive enabled=disabled
    [ ! -e "` + active + `/$unit" ] || state=active
    [ ! -L "` + wants + `/$unit" ] || enabled=enabled
    printf 'Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=%s\nNeedDaemonReload=no\nTriggeredBy=\n\n' "$unit" $state $enabled ;;
  start:*.mount)
    : > "` + active + `/$unit"
    mkdir -p "$(setting "$unit" Where)"
    # A file system in memory in a disk's place.
    what='-t tmpfs disk'
    [ "$(setting "$unit" Options)" != bind ] || what="-o bind $(setting "$unit" What)"
    mount $what "$(setting "$unit" Where)" ;;
  start:*|restart:*) : > "` + active + `/$unit" ;;
  stop:*.mount) umount "$(setting "$unit" Where)"; rm -f "` + active + `/$unit" ;;
  stop:*) rm -f "` + active + `/$unit" ;;
  enable:*) mkdir -p ` + wants + `; ln -sf "/etc/systemd/system/$unit" "` + wants + `/$unit" ;;
  disable:*) rm "` + wants + `/$unit" ;;
  esac
done`,
	// containerd has one namespace with every requested image, pinned.
	"ctr": `case "$*" in
*"namespaces ls -q") echo k8s.io ;;
*name==*) image=${*#*name==}; echo "${image%%,*}" ;;
esac`,
	// An array as the kernel shows it, and its members' superblocks (version 1.2)
	// with the fields that first boot and scrub read: magic, UUID and name.
	"mdadm": `while [ $# -gt 2 ]; do shift; done
for member; do
  printf '\374\116\053\251\001\0\0\0\0\0\0\0\0\0\0\00123456789abcdefmachine:kubernetes' | dd of="$member" bs=1 seek=4096 conv=notrunc 2> /dev/null
  mkdir -p "/sys/block/${member##*/}/holders/md127"
done
truncate -s 131072 /dev/md127
ln -s ../md127 /dev/md/kubernetes`,
	// The fields of an XFS that first boot and scrub read: magic and UUID.
	"mkfs.xfs": `for argument; do
  case $argument in uuid=*) uuid=${argument#uuid=} ;; esac
done
truncate -s 0 "$argument"
truncate -s 131072 "$argument"
printf XFSB | dd of="$argument" conv=notrunc 2> /dev/null
printf "$(echo "$uuid" | tr -d - | sed 's/../\\x&/g')" | dd of="$argument" bs=1 seek=32 conv=notrunc 2> /dev/null`,
}
