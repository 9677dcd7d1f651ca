//go:build e2e && qemu

package scrub_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// canary is a word in all state of the old machine. After the scrub no file may
// contain it.
const canary = "canary-5f1c9d27-of-the-old-cluster"

// kubeletSetup starts a kubelet without an API server. It runs the static pods
// in a folder.
const kubeletSetup = `cat > /etc/kubernetes/kubelet-standalone.yaml <<'EOF'
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
staticPodPath: /etc/kubernetes/manifests
cgroupDriver: systemd
failSwapOn: false
enableControllerAttachDetach: false
podLogsDir: /var/log/pods
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cpuManagerPolicy: static
reservedSystemCPUs: "0"
EOF
cat > /etc/systemd/system/kubelet.service <<'EOF'
[Unit]
After=containerd.service
[Service]
ExecStart=/usr/bin/kubelet --config=/etc/kubernetes/kubelet-standalone.yaml --hostname-override=old-node --v=1
KillMode=process
Restart=on-failure
RestartSec=2
[Install]
WantedBy=multi-user.target
EOF
cat > /etc/kubernetes/manifests/old.yaml <<'EOF'
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: default, annotations: {note: ` + canary + `}}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  containers:
  - name: app
    image: ` + imageName + `
    imagePullPolicy: Never
    args: ["` + canary + `"]
    env: [{name: SECRET, value: ` + canary + `}]
    volumeMounts:
    - {name: memory, mountPath: /memory}
    - {name: scratch, mountPath: /scratch}
    - {name: etc, mountPath: /host-etc}
    - {name: words, mountPath: /words}
  volumes:
  - {name: memory, emptyDir: {medium: Memory}}
  - {name: scratch, emptyDir: {}}
  - {name: etc, hostPath: {path: /etc}}
  - name: words
    downwardAPI: {items: [{path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}]}
EOF
systemctl daemon-reload
systemctl enable kubelet
`

// plant writes the canary into every file of the old cluster's and machine's
// state, and into logs through the programs that write them.
const plant = `
c=` + canary + `
mkdir -p /etc/cni/net.d /var/lib/cni/results /etc/kubernetes/pki /etc/eks /var/lib/kubelet/pki /etc/kubernetes/kubelet /root/.aws /root/.kube /etc/iptables
echo "#!/bin/sh" > /etc/eks/bootstrap.sh
for f in /etc/cni/net.d/10-aws.conflist /var/lib/cni/results/old /etc/kubernetes/pki/ca.crt /etc/kubernetes/admin.conf \
  /var/lib/kubelet/pki/kubelet-client-current.pem /var/lib/kubelet/config.json /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint \
  /var/lib/kubelet/memory_manager_state /root/.aws/credentials /root/.kube/config /root/.bash_history /home/admin/.bash_history \
  /tmp/script.sh /var/tmp/token /var/lib/systemd/random-seed /etc/machine-info /var/log/old.log /var/log/old.log.1 \
  /etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf /var/lib/dhcp/dhclient.leases; do
  mkdir -p "$(dirname "$f")"
  echo "$c" >> "$f"
done
cat > /var/lib/kubelet/kubeconfig <<EOF
apiVersion: v1
kind: Config
clusters:
- cluster:
    certificate-authority: /etc/kubernetes/pki/ca.crt
    server: https://$c.gr7.us-east-1.eks.amazonaws.com
  name: kubernetes
contexts:
- context: {cluster: kubernetes, user: kubelet}
  name: kubelet
current-context: kubelet
users:
- name: kubelet
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      command: /usr/bin/aws-iam-authenticator
      args:
      - token
      - -i
      - $c
      - --region
      - us-east-1
EOF
for dir in /var/lib/kubelet/pods /var/lib/cloud/instances /var/lib/cloud/data /var/log/pods; do
  find "$dir" -xdev -type f -exec sh -c 'for f; do echo "$0" >> "$f"; done' "$c" {} +
done
echo "$c" > "$(ls -d /var/lib/kubelet/pods/*/volumes/kubernetes.io~empty-dir/scratch | head -1)/file"
echo "127.0.1.1 $c" >> /etc/hosts
echo "ssh-ed25519 AAAA $c" >> /root/.ssh/authorized_keys
hostnamectl set-hostname "$c"
logger -t old "$c"
ctr -n k8s.io leases create --id "$c" >/dev/null
ctr -n k8s.io run -d --env SECRET="$c" --label note="$c" ` + imageName + ` old-run /bin/sh -c 'exec tail -f /dev/null' "$c" >/dev/null
journalctl --flush --sync
sync
`

// state lists the state that a scrub has to find.
const state = `echo containers $(ctr -n k8s.io containers ls -q | wc -l)
echo tasks $(ctr -n k8s.io tasks ls -q | wc -l)
echo leases $(ctr -n k8s.io leases ls -q | wc -l)
echo mounts $(grep -c " /var/lib/kubelet/" /proc/self/mountinfo)
echo images $(ctr -n k8s.io images ls -q | tr '\n' ' ')
echo snapshots $(ctr -n k8s.io snapshots ls | grep -c Committed)
echo kubelet $(systemctl is-active kubelet) $(systemctl is-enabled kubelet)
`

// A machine with the state of containerd, a kubelet, cloud-init, sshd and
// journald is scrubbed while it runs. The captured image must contain none of
// that state.
func TestScrubRunningNodeAndCapture(t *testing.T) {
	l := lab.Open(t, limit, machine.Nspawn, machine.QEMU)
	builder := l.Start(t, machine.Config{Root: l.Root, InstanceID: "i-equip"})
	equip(t, builder)
	builder.Sh(t, kubeletSetup+"systemctl stop containerd; rm -rf /var/lib/containerd")
	equipped := filepath.Join(l.Folder(), "equipped.raw")
	builder.CaptureTo(t, equipped)

	// Only a virtual machine has control groups and a disk of its own.
	n := l.Start(t, machine.Config{Kind: machine.QEMU, Image: equipped, InstanceID: "i-old", Memory: 2048})
	n.Await(t, "containerd runs", patience, "ctr version")
	n.Import(t, "", pause(t))
	n.Await(t, "the static pod's container runs", patience, "ctr -n k8s.io tasks ls | grep -c RUNNING | grep -qx 2")
	n.Await(t, "the static pod's volumes are mounted", patience, `test "$(grep -c ' /var/lib/kubelet/pods/' /proc/self/mountinfo)" -ge 2`)
	n.Sh(t, plant)
	before := n.Sh(t, state)
	t.Logf("before:\n%s", before)
	assert.Contains(t, before, "containers 3\ntasks 3\nleases 1\nmounts ")
	assert.Contains(t, before, "kubelet active enabled")
	t.Logf("the canary is in: %s", n.Sh(t, "grep -rlFs "+canary+" /etc /var /root /home /tmp | head -100"))

	// All commands share one session, because the scrub removes the login key. The
	// container that tests the image leaves its specification in containerd's
	// database; a second scrub removes it.
	result := n.Try(t, "eksnode scrub --yes --wipe-free-space --report /run/report.json 2>&1 && echo exit 0\n"+freeBlocks+state+
		"ctr -n k8s.io images check\nctr -n k8s.io run -d "+imageName+` again && echo the image is usable
ctr -n k8s.io tasks rm --force again || true; ctr -n k8s.io containers rm again
eksnode scrub --yes --rules containerd
eksnode audit && echo audit 0
grep -rlFs `+canary+` /etc /var /root /home /tmp /usr /opt /srv /boot || echo no canary`)
	t.Logf("%s%s", result.Stdout, result.Stderr)
	for _, want := range []string{
		"exit 0", "containers 0\ntasks 0\nleases 0\nmounts 0", "images " + imageName, "complete (2/2)", "the image is usable", "kubelet inactive disabled", "audit 0", "no canary",
	} {
		assert.Contains(t, result.Stdout, want)
	}
	image := filepath.Join(l.Folder(), "image.raw")
	n.CaptureTo(t, image)
	checkCaptured(t, lab.Disk(image), result.Stdout)
}

// freeBlocks lists the free blocks of the root file system in dumpe2fs's
// format.
const freeBlocks = `dumpe2fs $(findmnt --noheadings --output SOURCE /) 2>/dev/null | grep '^  Free blocks: '
`

func freeAt(t *testing.T, listed string) func(block int64) bool {
	t.Helper()
	var ranges [][2]int64
	for _, r := range regexp.MustCompile(`[ ,](\d+)(?:-(\d+))?`).FindAllStringSubmatch(strings.Join(regexp.MustCompile(`(?m)^  Free blocks:.*`).FindAllString(listed, -1), "\n"), -1) {
		first, err := strconv.ParseInt(r[1], 10, 64)
		require.NoError(t, err)
		last := first
		if r[2] != "" {
			last, err = strconv.ParseInt(r[2], 10, 64)
			require.NoError(t, err)
		}
		ranges = append(ranges, [2]int64{first, last})
	}
	require.NotEmpty(t, ranges)
	return func(block int64) bool {
		return slices.ContainsFunc(ranges, func(r [2]int64) bool { return r[0] <= block && block <= r[1] })
	}
}

// checkCaptured audits an image and looks for the canary in its files and
// blocks. wiped lists the blocks that were free right after the free space was
// wiped.
func checkCaptured(t *testing.T, image lab.Disk, wiped string) {
	t.Helper()
	said, code := image.Sh(t, false, `"$EKSNODE" audit --root "$ROOT" 2>&1`)
	assert.Zero(t, code, said)
	files, blocks := image.Search(t, canary)
	assert.Empty(t, files)
	t.Logf("the canary is in these blocks of the disk, which belong to: %v", blocks)
	free := freeAt(t, wiped)
	for block, owner := range blocks {
		switch owner {
		case lab.Journal:
		case lab.Free:
			// For a block that the disk could have discarded, a whole cluster was
			// free. The partition starts at a cluster's start.
			whole := true
			for i := range int64(cluster) {
				whole = whole && free(block-block%cluster+i)
			}
			assert.False(t, whole, "the free block %d holds the canary", block)
		default:
			assert.Fail(t, "a file's block holds the canary", "block %d, inode %s", block, owner)
		}
	}
}

// cluster is the smallest unit that the machines' disk (qcow2) discards, in
// blocks. A free block next to a used one in the same cluster is kept.
const cluster = 64 << 10 / 4096

// patience bounds waits for emulated machines.
const patience = 5 * time.Minute
