//go:build e2e

package join_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/lab"
	"github.com/eksnode/packer-plugin-eksnode/e2e/machine"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk"
)

// wordOfA is in every file that the pod on the first instance got.
const wordOfA = "word-of-cluster-a-4c1f9e"

// firstID is the id of the instance that joins cluster A.
const firstID = "i-first-4c1f9e"

// The image joins cluster A, runs a pod and is captured twice: unscrubbed and
// scrubbed. An instance of the unscrubbed image contacts cluster A and is
// Unauthorized, although it should join B. Every instance of the scrubbed image
// joins B, by either contract.
func TestChain(t *testing.T) {
	w := chain(t, lab.System{})
	t.Run("a disk becomes an AMI", func(t *testing.T) { w.in(t).becomesAMI() })
	w.report("chain")
}

func chain(t *testing.T, system lab.System) *world {
	w := openWorld(t, system, 30*time.Minute)
	dirty, clean := filepath.Join(w.Folder(), "dirty.raw"), filepath.Join(w.Folder(), "clean.raw")
	var first *instance
	w.phase("an instance joins cluster A and runs a pod", func() {
		first = w.launch(firstID, w.image, w.a.role, w.a.amazonScript("--node-labels=cluster=a"))
		w.works(w.a, first, "first", wordOfA)
	})
	w.phase("the instance is captured without a scrub, and is Ready again", func() {
		require.NoError(t, first.PowerOff(w.Ctx))
		require.NoError(t, first.Capture(w.Ctx, dirty))
		w.step("captured without a scrub")
		w.reboot(w.a, first)
	})
	w.phase("the instance is scrubbed, powered off and captured", func() { w.scrubbed(first, clean) })
	w.step("captured scrubbed")

	w.phase("an instance of the image without the scrub", func() { t.Run("without the scrub", func(t *testing.T) { w.in(t).unauthorized(dirty) }) })
	w.phase("two instances of the scrubbed image", func() {
		t.Run("scrubbed", func(t *testing.T) { w.in(t).authorized("captured after the scrub", clean, "i") })
	})
	return w
}

// unauthorized requires that an instance of the unscrubbed image contacts
// cluster A and is refused.
func (w *world) unauthorized(dirty string) {
	// The instance has no user data: its kubelet is enabled and starts as cluster
	// A's node.
	i := w.launch("i-dirty", dirty, w.b.role, nil)
	defer w.end(i)
	said := w.says(i, "Server rejected event .will not retry!.*Unauthorized")
	w.record("captured without the scrub", "none yet", "does not join", said)
	assert.Equal(w.t, "captured-node", w.blamed(i))
	i.Sh(w.t, string(w.b.amazonScript("--node-labels=cluster=b")))
	said = w.says(i, "certificate signed by unknown authority")
	assert.Equal(w.t, "captured-node", w.blamed(i))
	w.record("captured without the scrub", "Amazon's bootstrap.sh", "does not join", said)
	w.b.hasNo(w.t, "node", i.PrivateDNSName)
	assert.Contains(w.t, strings.Join(w.a.authenticator.Refusals(), "\n"),
		"the role nodes-of-"+nameOfB+" of i-dirty is not mapped in the cluster "+nameOfA)
}

// authorized requires that two instances of an image join cluster B, by either
// contract. name is the image's name in the report; the instances' names begin with
// prefix.
func (w *world) authorized(name, image, prefix string) {
	one := w.launch(prefix+"-one", image, w.b.role, w.b.nodeConfig())
	defer w.end(one)
	two := w.launch(prefix+"-two", image, w.b.role, w.b.bootstrapScript())
	defer w.end(two)
	w.works(w.b, one, prefix+"-one", "word-of-b-one")
	w.record(name, "NodeConfig", "joins", "")
	w.works(w.b, two, prefix+"-two", "word-of-b-two")
	w.record(name, "bootstrap.sh", "joins", "")
	w.areStrangers(one, two)
}

// areStrangers requires that two instances of one image share no machine
// identity and have no state of cluster A.
func (w *world) areStrangers(one, two *instance) {
	w.t.Helper()
	var ids []string
	for _, i := range []*instance{one, two} {
		node, err := w.b.node(w.Ctx, i.PrivateDNSName)
		require.NoError(w.t, err)
		assert.Equal(w.t, "aws:///eu-west-1a/"+i.InstanceID(), node.Spec.ProviderID)
		assert.NotContains(w.t, node.Metadata.Labels, "cluster", "a label of cluster A")
		ids = append(ids, node.Status.NodeInfo.MachineID)
		left := i.Sh(w.t, "grep -rlFs -e "+wordOfA+" -e "+nameOfA+" -e "+firstID+" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=run --exclude-dir=dev || true")
		assert.Empty(w.t, left, "files of %s name cluster A", i.InstanceID())
	}
	assert.NotEqual(w.t, ids[0], ids[1])
}

// The controller signs only a certificate that a node requests for itself.
func TestOnlyOwnServingCertificatesAreSigned(t *testing.T) {
	const user, name = "system:node:ip-10-77-1-2.eu-west-1.compute.internal", "ip-10-77-1-2.eu-west-1.compute.internal"
	for _, c := range []struct {
		user, subject string
		names         []string
		address, want string
	}{
		{user, user, []string{name}, "10.77.1.2", ""},
		{user, user, nil, "10.77.1.3", user + " requests the address 10.77.1.3"},
		{user, user, []string{"kubernetes.default"}, "10.77.1.2", user + ` requests ` + user + `, ["kubernetes.default"]`},
		{user, "system:node:other", nil, "10.77.1.2", user + " requests system:node:other, []"},
		{"admin", "admin", nil, "10.77.1.2", "admin requests admin, []"},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
			Subject: pkix.Name{CommonName: c.subject}, DNSNames: c.names, IPAddresses: []net.IP{net.ParseIP(c.address)},
		}, key)
		require.NoError(t, err)
		err = claims(c.user, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.EqualError(t, err, c.want)
	}
}

// The disk of a built machine becomes an AMI without an instance. Two instances of the
// AMI join, and have identities of their own. Another instance joins whose volume is
// encrypted: blocks that were not uploaded read as garbage there. The next version of the
// disk becomes an AMI with the first as its parent.
func (w *world) becomesAMI() {
	t := w.t
	require.NoError(t, base.Install(w.Ctx, t.Output(), machine.CloudPackages()...))
	source := filepath.Join(w.Folder(), "disk.raw")
	w.phase("a disk that BIOS and UEFI boot", func() {
		require.NoError(t, machine.MakeCloudDisk(w.Ctx, w.image, source))
		w.fill(source, zeros, "/dev/zero")
		w.fill(source, changing, "/dev/urandom")
	})
	a := w.openAccount()
	var volume, id string
	w.phase("the disk becomes an AMI", func() {
		made := w.imports(source, "node", "")
		assert.Equal(t, "uefi-preferred", made.Image.BootMode)
		id, volume = made.Upload.Snapshot.ID, a.Image("node").Disk.Image
	})
	w.phase("the volume is compared with the disk", func() { assert.Empty(t, w.faults(source, volume)) })
	w.phase("two instances of the AMI", func() { w.authorized("AMI of a disk", volume, "i-ami") })
	w.phase("the road to a permission", func() { w.takesTheRoad(a, a.Image("node")) })
	require.NoError(t, os.Remove(volume))

	encrypted := filepath.Join(a.Folder, "encrypted.raw")
	w.phase("an encrypted volume", func() {
		w.makeVolume(a, id, encrypted)
		assert.Empty(t, w.faults(source, encrypted))
	})
	w.phase("the same without zero blocks", func() {
		w.fillZeroBlocks(a, id, encrypted, 0xa5)
		faults := strings.Join(w.faults(source, encrypted), "\n")
		w.step("an upload without zero blocks has these faults:\n%s", faults)
		assert.Contains(t, faults, "./"+zeros, "the comparison does not see that zero blocks are missing")
		w.fillZeroBlocks(a, id, encrypted, 0)
	})
	w.phase("an instance with the encrypted volume", func() {
		moved := machine.Config{Image: encrypted, Move: true, InstanceID: "i-encrypted", UserData: w.b.nodeConfig()}
		i := w.start(moved, w.b.role, cut{})
		defer w.end(i)
		w.works(w.b, i, "encrypted", "word-of-b")
		w.record("AMI of a disk, encrypted", "NodeConfig", "joins", "")
	})
	w.phase("the next version, with a parent", func() {
		w.fill(source, changing, "/dev/zero")
		assert.Less(t, w.imports(source, "next", id).Upload.Sent, 100)
		assert.Empty(t, w.faults(source, a.Image("next").Disk.Image))
	})
}

// zeros is a file that consists of zeros. changing becomes such a file in the next
// version of the disk.
const (
	zeros    = "var/lib/zeros"
	changing = "var/lib/changing"
)

func (w *world) fill(path, file, from string) {
	w.t.Helper()
	_, code := lab.Disk(path).Sh(w.t, true, `dd if="$1" of="$ROOT/$2" bs=1M count=4 conv=notrunc status=none`, from, file)
	require.Zero(w.t, code)
}

// makeVolume writes what an encrypted volume of a snapshot holds.
func (w *world) makeVolume(a *account, id, path string) {
	w.t.Helper()
	content, err := a.ebs.Volume(id, true)
	require.NoError(w.t, err)
	f, err := os.Create(path)
	require.NoError(w.t, err)
	defer f.Close()
	_, err = io.CopyBuffer(f, content, make([]byte, disk.BlockSize))
	require.NoError(w.t, err)
}

// fillZeroBlocks fills the zero blocks of a snapshot with a byte on a volume. With
// garbage, an encrypted volume is as after an upload that leaves zero blocks out.
func (w *world) fillZeroBlocks(a *account, id, path string, with byte) {
	w.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(w.t, err)
	defer f.Close()
	zero, fill := sha256.Sum256(make([]byte, disk.BlockSize)), bytes.Repeat([]byte{with}, disk.BlockSize)
	count := 0
	for index, sum := range a.ebs.Blocks(id) {
		if sum == zero {
			_, err := f.WriteAt(fill, int64(index)*disk.BlockSize)
			require.NoError(w.t, err)
			count++
		}
	}
	w.step("%d zero blocks of the snapshot are filled with %#x", count, with)
	require.NotZero(w.t, count)
}

// faults compares a volume with the disk that was uploaded: the bytes that are not
// free, the file system, and all files.
func (w *world) faults(source, volume string) []string {
	w.t.Helper()
	found := differentBlocks(w.t, source, volume)
	if out, err := exec.CommandContext(w.Ctx, "e2fsck", "-fn", volume+"?offset=1048576").CombinedOutput(); err != nil {
		found = append(found, fmt.Sprintf("e2fsck: %v: %.500s", err, out))
	}
	want, got := sums(w.t, source), sums(w.t, volume)
	for _, line := range want {
		if !slices.Contains(got, line) {
			found = append(found, "changed: "+line)
		}
	}
	if len(want) != len(got) {
		found = append(found, fmt.Sprintf("%d files, want %d", len(got), len(want)))
	}
	return found
}

// sums are the SHA-256 of all files of a disk.
func sums(t *testing.T, path string) []string {
	t.Helper()
	out, _ := lab.Disk(path).Sh(t, false, `cd "$ROOT" && find . -xdev -type f -print0 | sort -z | xargs -0 sha256sum`)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// differentBlocks compares the bytes of the volume that are not free on the disk.
func differentBlocks(t *testing.T, source, volume string) (found []string) {
	t.Helper()
	original, err := disk.Open(source)
	require.NoError(t, err)
	defer original.Close()
	copied, err := os.Open(volume)
	require.NoError(t, err)
	defer copied.Close()
	want, got := make([]byte, disk.BlockSize), make([]byte, disk.BlockSize)
	for index := range original.Layout.Blocks() {
		at := index * disk.BlockSize
		n, err := original.ReadAt(want, at)
		if !errors.Is(err, io.EOF) {
			require.NoError(t, err)
		}
		_, err = copied.ReadAt(got, at)
		require.NoError(t, err)
		original.Layout.ZeroFree(want[:n], at)
		original.Layout.ZeroFree(got[:n], at)
		if !bytes.Equal(want[:n], got[:n]) {
			found = append(found, fmt.Sprintf("block %d differs", index))
		}
	}
	return found[:min(len(found), 20)]
}
