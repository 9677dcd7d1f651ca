//go:build e2e && qemu

package firstboot_test

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// storeRule gives the emulator's disks the names that udev gives an instance
// store. udev takes them from the disk model on EC2, and the emulator's model
// is fixed. Each disk has two names, as with current versions of systemd.
const storeRule = `ENV{DEVTYPE}=="disk", ATTRS{model}=="QEMU NVMe Ctrl*", ENV{ID_SERIAL_SHORT}=="EMPTY*", ` +
	`SYMLINK+="disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_$env{ID_SERIAL_SHORT} disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_$env{ID_SERIAL_SHORT}-ns-1"`

// withStore prepares the builder machine for instances with an instance store.
const withStore = `DEBIAN_FRONTEND=noninteractive apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends mdadm xfsprogs
cat > /etc/udev/rules.d/90-instance-store.rules`

// store is a NodeConfig's instance store settings and the expected result.
type store struct {
	name, spec string
	holds      func(*node)
}

var stores = []store{
	{"Mount", "{strategy: Mount}", (*node).mountsEach},
	{"RAID0", "{strategy: RAID0}", func(n *node) { n.carries("raid0", "/mnt/k8s-disks/0", true) }},
	{"RAID10", "{strategy: RAID10, mountPath: /mnt/store, disabledMounts: [PodLogs]}", func(n *node) { n.carries("raid10", "/mnt/store/0", false) }},
}

// storeDisks is the number of the machine's disks.
const storeDisks = 4

// emptied removes a strategy's result, as a person would.
//
//go:embed testdata/empty-store.sh
var emptied string

// TestInstanceStore starts a virtual machine with empty NVMe disks and a kernel
// that supports arrays and XFS. It runs init with each strategy. The last
// strategy also runs at boots: with the same disks, and with new ones.
func TestInstanceStore(t *testing.T) {
	w := open(t, func(n *node) { n.sh(withStore+" <<'EOF'\n%s\nEOF", storeRule) }, machine.QEMU)
	c := w.cluster("store", "6443")
	n := w.launch(t, machine.Config{Kind: machine.QEMU, Image: w.image, InstanceID: "i-store", NVMe: storeDisks, Memory: 1536})
	n.booted()
	for i, s := range stores {
		userData := nodeConfig(c, "  instance: {localStorage: "+s.spec+"}\n")
		n.metadata.Set(func(settings *imdstest.Settings) { settings.Entries["user-data"] = userData })
		ok := t.Run(s.name, func(t *testing.T) {
			in := &node{n.Node, w, t, n.metadata}
			t.Log(in.sh("eksnode init 2>&1"))
			s.holds(in)
			in.again("eksnode init")
		})
		require.True(t, ok)
		if i < len(stores)-1 {
			n.sh(emptied)
		}
	}
	last := stores[len(stores)-1]
	t.Run("a reboot keeps the instance store", func(t *testing.T) {
		in := &node{n.Node, w, t, n.metadata}
		uuids := in.uuids()
		in.reboots(c)
		last.holds(in)
		assert.Equal(t, uuids, in.uuids())
	})
	t.Run("new disks after a stop", func(t *testing.T) {
		in := &node{n.Node, w, t, n.metadata}
		require.NoError(t, n.PowerOff(w.Ctx))
		c.forget(in)
		require.NoError(t, n.EmptyDisks())
		require.NoError(t, n.Boot(w.Ctx))
		in.joining(c)
		last.holds(in)
	})
}

// uuids returns the UUIDs of the file systems on the instance store.
func (n *node) uuids() string {
	n.t.Helper()
	return n.sh("findmnt --noheadings --raw --output TARGET,UUID,FSTYPE --types xfs,ext4 | grep -v '^/ ' | sort")
}

// carries asserts that the folder is an array of the disks and contains the
// services' data.
func (n *node) carries(level, where string, podLogs bool) {
	t := n.t
	t.Helper()
	device := n.sh("findmnt --noheadings --output SOURCE %s", where)
	assert.Regexp(t, `^/dev/md\d+$`, device)
	assert.Equal(t, "xfs", n.sh("findmnt --noheadings --output FSTYPE %s", where))
	detail := n.sh("mdadm --detail %s; cat /sys/block/%s/md/array_state", device, strings.TrimPrefix(device, "/dev/"))
	assert.Contains(t, detail, "Raid Level : "+level+"\n")
	assert.Regexp(t, fmt.Sprintf(`Active Devices : %d\n`, storeDisks), detail)
	assert.Regexp(t, `(clean|active)$`, detail)
	folders := []string{"/var/lib/kubelet", "/var/lib/containerd"}
	if podLogs {
		folders = append(folders, "/var/log/pods")
	} else {
		assert.NotZero(t, n.Try(t, "mountpoint -q /var/log/pods").Code)
	}
	for _, folder := range folders {
		source := n.sh("findmnt --noheadings --nofsroot --output SOURCE %s; findmnt --noheadings --output FSROOT %s", folder, folder)
		assert.Equal(t, device+"\n/"+folder[strings.LastIndex(folder, "/")+1:], source)
	}
	// The services write to the instance store.
	n.sh("test -e %s/kubelet/kubeconfig && test -d %s/containerd/io.containerd.metadata.v1.bolt", where, where)
	assert.Contains(t, n.sh("ctr -n k8s.io images list -q"), lab.PauseImage(),
		"the container images of the image were copied to the instance store")
}

// mountsEach asserts that each disk has a file system of its own.
func (n *node) mountsEach() {
	n.t.Helper()
	assert.Equal(n.t, "/mnt/k8s-disks/1 /dev/nvme0n1 xfs\n/mnt/k8s-disks/2 /dev/nvme1n1 xfs\n/mnt/k8s-disks/3 /dev/nvme2n1 xfs\n/mnt/k8s-disks/4 /dev/nvme3n1 xfs",
		n.sh("findmnt --noheadings --raw --output TARGET,SOURCE,FSTYPE | grep ^/mnt | sort"))
	assert.NotZero(n.t, n.Try(n.t, "mountpoint -q /var/lib/kubelet").Code, "the services' own folders must not move")
}
