//go:build e2e && qemu

package scrub_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
)

// canary stands in everything that the old machine left: nothing may hold it
// afterwards.
const canary = "canary-5f1c9d27-of-the-old-cluster"

// kubeletSetup is a kubelet without an API server: it runs what lies in the
// folder of static pods.
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

// plant puts the canary into every file of the old cluster's and machine's
// state, and into logs by those who write them.
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
ctr -n k8s.io run -d --env SECRET="$c" --label note="$c" ` + imageName + ` old-run /pause "$c" >/dev/null
journalctl --flush --sync
sync
`

// state lists what a scrub has to find.
const state = `echo containers $(ctr -n k8s.io containers ls -q | wc -l)
echo tasks $(ctr -n k8s.io tasks ls -q | wc -l)
echo leases $(ctr -n k8s.io leases ls -q | wc -l)
echo mounts $(grep -c " /var/lib/kubelet/" /proc/self/mountinfo)
echo images $(ctr -n k8s.io images ls -q | tr '\n' ' ')
echo snapshots $(ctr -n k8s.io snapshots ls | grep -c Committed)
echo kubelet $(systemctl is-active kubelet) $(systemctl is-enabled kubelet)
`

// A machine on which containerd, a kubelet, cloud-init, sshd and journald have
// left their state is scrubbed while it runs, and becomes an image that holds
// none of it.
func TestARealNode(t *testing.T) {
	l := openLab(t, machine.Nspawn, machine.QEMU)
	builder := l.start(t, machine.Config{Root: l.root, InstanceID: "i-equip"})
	builder.equip(t, "native")
	builder.sh(t, kubeletSetup+"systemctl stop containerd; rm -rf /var/lib/containerd")
	require.NoError(t, builder.PowerOff(l.ctx))
	equipped := filepath.Join(l.Folder(), "equipped.raw")
	require.NoError(t, builder.Capture(l.ctx, equipped))
	require.NoError(t, builder.Close())

	// A virtual machine, because only it has control groups and a disk of its own.
	n := l.start(t, machine.Config{Kind: machine.QEMU, Image: equipped, InstanceID: "i-old", Memory: 2048})
	n.load(t)
	n.await(t, "the static pod's container", "ctr -n k8s.io tasks ls | grep -c RUNNING | grep -qx 2")
	n.await(t, "its volumes", `test "$(grep -c ' /var/lib/kubelet/pods/' /proc/self/mountinfo)" -ge 2`)
	n.sh(t, plant)
	before := n.sh(t, state)
	t.Logf("before:\n%s", before)
	assert.Contains(t, before, "containers 3\ntasks 3\nleases 1\nmounts ")
	assert.Contains(t, before, "kubelet active enabled")
	t.Logf("the canary is in: %s", n.sh(t, "grep -rlFs "+canary+" /etc /var /root /home /tmp | head -100"))

	// One session for all: the scrub ends with the key that lets us in.
	// The container that tries the image leaves its own specification in
	// containerd's database, which a second scrub clears.
	result := n.try(t, "eksnode scrub --yes --wipe-free-space --report /run/report.json 2>&1 && echo exit 0\n"+freeBlocks+state+
		"ctr -n k8s.io images check\nctr -n k8s.io run -d "+imageName+` again /pause && echo the image is usable
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
	require.NoError(t, n.PowerOff(l.ctx))
	image := filepath.Join(l.Folder(), "image.raw")
	require.NoError(t, n.Capture(l.ctx, image))
	checkCaptured(t, image, result.Stdout)
}

// freeBlocks lists the blocks of the root that hold nothing, as dumpe2fs does.
const freeBlocks = `dumpe2fs $(findmnt --noheadings --output SOURCE /) 2>/dev/null | grep '^  Free blocks: '
`

// freeAt reads what freeBlocks has listed.
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

// load imports the image.
func (n *node) load(t *testing.T) {
	t.Helper()
	n.await(t, "containerd", "ctr version")
	result, err := n.Run(n.lab.ctx, "sudo ctr -n k8s.io images import -", strings.NewReader(string(ociImage(t))))
	require.NoError(t, err)
	require.Zero(t, result.Code, result.Stderr)
}

// await runs a script on the machine until it succeeds.
func (n *node) await(t *testing.T, what, script string) {
	t.Helper()
	result := n.try(t, `n=0; until { `+script+`; } >/dev/null 2>&1; do n=$((n+1)); if [ $n = 240 ]; then echo not within two minutes; journalctl -n 40 --no-pager; exit 1; fi; sleep .5; done`)
	require.Zero(t, result.Code, "%s: %s", what, result.Stdout)
}

// checkCaptured looks for the canary in the files and in the blocks of an image,
// and audits it. wiped lists the blocks that were free when the free space had
// just been wiped.
func checkCaptured(t *testing.T, image, wiped string) {
	t.Helper()
	point := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", "sh", "-uc", `
mount -o ro,noload,loop,offset=1048576 "$1" "$2" || exit 1
"$3" audit --root "$2"; echo audit $?
grep -rlFs "$4" "$2" || echo no canary
grep -obaF "$4" "$1" | cut -d: -f1 | sed 's/^/block at /'
umount "$2"`, "sh", image, point, eksnode(t), canary).CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
	assert.Contains(t, string(out), "audit 0")
	assert.Contains(t, string(out), "no canary")
	var blocks []string
	for line := range strings.Lines(string(out)) {
		if at, found := strings.CutPrefix(strings.TrimSpace(line), "block at "); found {
			n, err := strconv.ParseInt(at, 10, 64)
			require.NoError(t, err)
			blocks = append(blocks, strconv.FormatInt((n-partition)/4096, 10))
		}
	}
	owners := owners(t, image, blocks)
	t.Logf("the canary is in %d blocks of the disk, which belong to: %v", len(blocks), owners)
	delete(owners, journal)
	delete(owners, "free") // judged below
	assert.Empty(t, owners, "the canary is in the blocks of files")
	assert.Empty(t, discardable(t, freeAt(t, wiped), blocks), "free blocks that the disk could have discarded hold the canary")
}

// cluster is the smallest part of itself that the machines' disk (qcow2) gives
// back: what is free beside something that is not, stays as it was.
const cluster = 64 << 10

// discardable are those blocks around which a whole cluster was free.
func discardable(t *testing.T, free func(int64) bool, blocks []string) []string {
	t.Helper()
	var found []string
	for _, b := range blocks {
		n, err := strconv.ParseInt(b, 10, 64)
		require.NoError(t, err)
		first := n - n%(cluster/4096) // the partition starts at a cluster's start
		whole := true
		for i := range int64(cluster / 4096) {
			whole = whole && free(first+i)
		}
		if whole {
			found = append(found, b)
		}
	}
	return found
}

const (
	partition = 1 << 20 // where the disk's file system starts
	journal   = "8"     // the inode of an ext4's journal
)

// owners counts blocks by the inode that they belong to, "free" for others.
func owners(t *testing.T, image string, blocks []string) map[string]int {
	t.Helper()
	if len(blocks) == 0 {
		return map[string]int{}
	}
	out, err := exec.CommandContext(t.Context(), "debugfs", "-R", "icheck "+strings.Join(blocks, " "), image+"?offset="+strconv.Itoa(partition)).Output()
	require.NoError(t, err)
	count := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] != "Block" {
			owner := f[1]
			if owner == "<block" {
				owner = "free"
			}
			count[owner]++
		}
	}
	return count
}
