//go:build linux

package disks

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// instance returns a machine whose disks are files.
func instance(t *testing.T, disks map[string][]byte, holders map[string]string) *host.Host {
	t.Helper()
	root := t.TempDir()
	write := func(name string, data []byte) { hosttest.Lay(t, root, map[string]string{name: string(data)}) }
	write("/dev/disk/by-id/.keep", nil)
	for name, content := range disks {
		write("/dev/"+name, content)
		if strings.HasPrefix(name, "nvme") {
			for _, suffix := range []string{"", "_1", "-ns-1"} {
				link := filepath.Join(root, "/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_AWS"+name+suffix)
				require.NoError(t, os.Symlink("../../"+name, link))
			}
		}
	}
	for disk, holder := range holders {
		write("/sys/block/"+disk+"/holders/"+holder, nil)
	}
	return hosttest.Mounted(t, root)
}

func blank() []byte { return make([]byte, probed) }

func with(at int, magic string) []byte {
	b := blank()
	copy(b[at:], magic)
	return b
}

func commands(actions []plan.Action) string {
	lines := show.Each(actions, func(a plan.Action) string { return string(a.Verb) + " " + a.Target })
	return strings.Join(lines, "\n")
}

func TestPlans(t *testing.T) {
	binds := func(folders ...string) string {
		var s string
		for _, f := range folders {
			service := "kubelet"
			switch f {
			case "/var/lib/containerd":
				service = "containerd"
			case "/var/lib/soci-snapshotter-grpc":
				service = "soci-snapshotter"
			}
			on := "/mnt/k8s-disks/0/" + path.Base(f)
			s += "run systemctl stop " + service + ".service\nrun mkdir -p " + f + " " + on + "\nrun cp --archive " + f + "/. " + on +
				"\nwrite /etc/systemd/system/" + escape(f) + ".mount\nrun systemctl daemon-reload\nrun systemctl enable " + escape(f) + ".mount\nrun systemctl start " + escape(f) + ".mount\n"
		}
		return s
	}
	mount := func(where string) string {
		return "write /etc/systemd/system/" + escape(where) + ".mount\nrun systemctl daemon-reload\nrun systemctl enable " + escape(where) + ".mount\nrun systemctl start " + escape(where) + ".mount\n"
	}
	two := map[string][]byte{"nvme1n1": blank(), "nvme2n1": blank()}
	ids := func(n int) string { return Disks{InstanceID: "i-1"}.uuid(n) }
	for name, c := range map[string]struct {
		want    string
		store   nodeconfig.LocalStorage
		disks   map[string][]byte
		holders map[string]string
	}{
		"no strategy":       {"", nodeconfig.LocalStorage{}, two, nil},
		"no instance store": {"", nodeconfig.LocalStorage{Strategy: "RAID0"}, nil, nil},
		"unused disks":      {"", nodeconfig.LocalStorage{Strategy: "none"}, two, nil},
		"RAID0": {"run mdadm --create --run --force /dev/md/kubernetes --level=0 --name=kubernetes --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1\n" +
			"run mkfs.xfs -l su=8b -m uuid=" + ids(0) + " /dev/md/kubernetes\n" + mount("/mnt/k8s-disks/0") +
			binds("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/soci-snapshotter-grpc", "/var/log/pods"), nodeconfig.LocalStorage{Strategy: "RAID0"}, two, nil},
		"RAID10, elsewhere, without": {"run mdadm --create --run --force /dev/md/kubernetes --level=10 --name=kubernetes --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1\n" +
			"run mkfs.xfs -l su=8b -m uuid=" + ids(0) + " /dev/md/kubernetes\n" + mount("/data/0") +
			strings.ReplaceAll(binds("/var/lib/kubelet"), "/mnt/k8s-disks", "/data"),
			nodeconfig.LocalStorage{Strategy: "RAID10", MountPath: "/data", DisabledMounts: []string{"Containerd", "PodLogs", "SOCI"}}, two, nil},
		"RAID0 without SOCI": {"run mdadm --create --run --force /dev/md/kubernetes --level=0 --name=kubernetes --raid-devices=2 /dev/nvme1n1 /dev/nvme2n1\n" +
			"run mkfs.xfs -l su=8b -m uuid=" + ids(0) + " /dev/md/kubernetes\n" + mount("/mnt/k8s-disks/0") + binds("/var/lib/kubelet", "/var/lib/containerd", "/var/log/pods"),
			nodeconfig.LocalStorage{Strategy: "RAID0", DisabledMounts: []string{"SOCI"}}, two, nil},
		"array not assembled at boot": {"run mdadm --assemble --run /dev/md/kubernetes /dev/nvme1n1\nrun mkfs.xfs -l su=8b -m uuid=" + ids(0) + " /dev/md/kubernetes\n" +
			mount("/mnt/k8s-disks/0") + binds("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/soci-snapshotter-grpc", "/var/log/pods"),
			nodeconfig.LocalStorage{Strategy: "RAID0"}, map[string][]byte{"nvme1n1": with(0x1000, "\xfc\x4e\x2b\xa9")}, nil},
		"array with a file system": {mount("/mnt/k8s-disks/0") + binds("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/soci-snapshotter-grpc", "/var/log/pods"),
			nodeconfig.LocalStorage{Strategy: "RAID0"}, map[string][]byte{"nvme1n1": with(0x1000, "\xfc\x4e\x2b\xa9"), "md127": with(0, "XFSB")}, map[string]string{"nvme1n1": "md127"}},
		"Mount": {"run mkfs.xfs -l su=8b -m uuid=" + ids(1) + " /dev/nvme1n1\n" + mount("/mnt/k8s-disks/1") + mount("/mnt/k8s-disks/2") +
			"run mkfs.xfs -l su=8b -m uuid=" + ids(3) + " /dev/nvme10n1\n" + mount("/mnt/k8s-disks/3"),
			nodeconfig.LocalStorage{Strategy: "Mount"}, map[string][]byte{"nvme1n1": blank(), "nvme2n1": with(0x438, "\x53\xef"), "nvme10n1": blank()}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := instance(t, c.disks, c.holders)
			answer, err := Disks{LocalStorage: c.store, InstanceID: "i-1"}.Plan(t.Context(), h)
			require.NoError(t, err)
			assert.Equal(t, strings.TrimSuffix(c.want, "\n"), commands(answer.Actions))
		})
	}
}

func TestUnitNames(t *testing.T) {
	for name, want := range map[string]string{
		"/mnt/k8s-disks/0": `mnt-k8s\x2ddisks-0`, "/var/lib/kubelet": "var-lib-kubelet", "/data/.x/ü": `data-.x-\xc3\xbc`,
	} {
		assert.Equal(t, want, escape(name))
		if _, err := exec.LookPath("systemd-escape"); err == nil {
			assert.Equal(t, strings.TrimSpace(testkit.Run(t, "systemd-escape", "--path", name)), escape(name))
		}
	}
}

func TestUUIDsDifferByInstanceAndDisk(t *testing.T) {
	a := Disks{InstanceID: "i-1"}
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, a.uuid(0))
	assert.Equal(t, a.uuid(0), a.uuid(0))
	assert.NotEqual(t, a.uuid(0), a.uuid(1))
	assert.NotEqual(t, a.uuid(0), Disks{InstanceID: "i-2"}.uuid(0))
}

// The magic numbers and UUIDs match those of real programs.
func TestRealFileSystemsAreRecognized(t *testing.T) {
	for kind, size := range map[string]string{ext4: "8M", xfs: "320M"} {
		t.Run(kind, func(t *testing.T) {
			if _, err := exec.LookPath("mkfs." + kind); err != nil && kind == xfs {
				t.Log("mkfs.xfs is not installed")
				return
			}
			h := instance(t, map[string][]byte{"nvme1n1": nil}, nil)
			image := filepath.Join(h.Root(), "dev/nvme1n1")
			testkit.Run(t, "truncate", "-s", size, image)
			f := content{name: kind, uuid: Disks{InstanceID: "i-1"}.uuid(0)}
			argv := mkfs(f, image)
			testkit.Run(t, argv[0], argv[1:]...)
			got, err := probe(h, "/dev/nvme1n1")
			require.NoError(t, err)
			assert.Equal(t, f, got)
		})
	}
}

// settle applies a plan's files and mounts a file system at where.
func settle(t *testing.T, h *host.Host, actions []plan.Action, where string) {
	t.Helper()
	for _, a := range actions {
		if a.Verb == plan.Write {
			require.NoError(t, a.Do(t.Context(), nil))
		}
	}
	wants := filepath.Join(h.Root(), "etc/systemd/system/multi-user.target.wants")
	require.NoError(t, os.MkdirAll(wants, 0o755))
	require.NoError(t, os.Symlink("/etc/systemd/system/"+escape(where)+".mount", filepath.Join(wants, escape(where)+".mount")))
	on := filepath.Join(h.Root(), where)
	require.NoError(t, os.MkdirAll(on, 0o755))
	require.NoError(t, unix.Mount("tmpfs", on, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(on, 0)) })
}

// A mount is repeated when the disk below gets a new file system.
func TestNewFileSystemBelowAMountIsMounted(t *testing.T) {
	const where = "/mnt/k8s-disks/1"
	d := Disks{LocalStorage: nodeconfig.LocalStorage{Strategy: nodeconfig.Mount}, InstanceID: "i-1"}
	for name, c := range map[string]struct {
		disk []byte
		want string
	}{
		"all is there": {with(0, "XFSB"), ""},
		"a new disk in its place": {blank(), "run mkfs.xfs -l su=8b -m uuid=" + d.uuid(1) + " /dev/nvme1n1\n" +
			"run systemctl daemon-reload\nrun systemctl enable " + escape(where) + ".mount\nrun systemctl start " + escape(where) + ".mount"},
	} {
		t.Run(name, func(t *testing.T) {
			h := instance(t, map[string][]byte{"nvme1n1": c.disk}, nil)
			answer, err := d.Plan(t.Context(), h)
			require.NoError(t, err)
			settle(t, h, answer.Actions, where)
			answer, err = d.Plan(t.Context(), h)
			require.NoError(t, err)
			assert.Equal(t, c.want, commands(answer.Actions))
		})
	}
}

func TestArrayNeedsMdadm(t *testing.T) {
	h := hosttest.Live(t)
	t.Setenv("PATH", t.TempDir())
	_, _, err := array(h, []string{"/dev/nvme-not-there"}, "0")
	require.EqualError(t, err, `an array needs mdadm, which this image does not have: build the image with packages = ["mdadm"], or use the strategy Mount`)
}
