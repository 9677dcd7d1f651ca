//go:build linux

package scrub

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// BenchmarkDepth audits folders in folders, twice as deep each time, and prints
// how many times longer each depth takes. A search that looks at every folder
// above a file takes eight times longer: paths grow too.
func BenchmarkDepth(b *testing.B) {
	var before float64
	for _, depth := range []int{250, 500, 1000} {
		b.Run(fmt.Sprint(depth), func(b *testing.B) {
			h := hosttest.Root(b, map[string]string{"etc/passwd": passwd, strings.Repeat("/abc", depth) + "/": ""})
			items, err := Spec{Only: []string{"secrets-left"}}.Items(ToAudit, nil)
			require.NoError(b, err)
			for b.Loop() {
				plan.Make(b.Context(), h, items)
			}
			now := float64(b.Elapsed()) / float64(b.N)
			if before > 0 {
				b.ReportMetric(now/before, "times-longer")
			}
			before = now
		})
	}
}

// metadata writes a containerd metadata store with these buckets.
func metadata(t *testing.T, root string, buckets ...string) {
	t.Helper()
	testkit.Bolt(t, filepath.Join(root, containerdMeta), strings.Join(buckets, "\n"))
}

func TestContainersOfAStoppedContainerdAreFindings(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, "v1 k8s.io images pause", "v1 k8s.io containers abc", "v1 k8s.io leases l1")
	before := []byte(testkit.Content(t, filepath.Join(root, containerdMeta)))
	outcomes := apply(t, h, Spec{Only: []string{"containers"}})
	targets := show.Each(outcomes[0].Findings, func(f plan.Finding) string { return f.Target })
	assert.Equal(t, []string{"container k8s.io/abc", "lease k8s.io/l1"}, targets)
	assert.Equal(t, before, []byte(testkit.Content(t, filepath.Join(root, containerdMeta))))
}

func TestImagesOfContainerdAreNoFinding(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, "v1 k8s.io images pause", "v1 k8s.io content blob")
	assert.Empty(t, apply(t, h, Spec{Only: []string{"containers"}})[0].Findings)
}

// The error of truncated or damaged metadata names the file. The audit completes,
// and the file stays as it is.
func TestTruncatedContainerdMetadataIsUnknown(t *testing.T) {
	manifested, err := (&manifest.Manifest{Images: []manifest.Image{{Name: "pause", Digest: "sha256:0"}}}).Encode()
	require.NoError(t, err)
	h, root := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: string(manifested)})
	metadata(t, root, "v1 k8s.io images pause", "v1 k8s.io containers abc")
	name := filepath.Join(root, containerdMeta)
	whole := []byte(testkit.Content(t, name))
	damaged := bytes.Clone(whole)
	for at := 2*4096 + 8; at < len(damaged); at += 512 {
		damaged[at] ^= 0xFF
	}
	for what, text := range map[string][]byte{"empty": {}, "text": []byte("no database"), "one page": whole[:4096], "two pages and a bit": whole[:4096*2+100], "damaged": damaged, "zeros": make([]byte, len(whole))} {
		for _, rule := range []string{"containers", "containers-metadata", "images-there"} {
			t.Run(what+"/"+rule, func(t *testing.T) {
				require.NoError(t, os.WriteFile(name, text, 0o600))
				var r plan.Report
				r.Audited(plan.Look(t.Context(), h, selected(t, Spec{Only: []string{rule}}, ToAudit), nil))
				assert.Equal(t, plan.Unknown, r.Result)
				assert.Contains(t, r.Error, rule+": reading containerd's metadata "+containerdMeta+": ")
				assert.Equal(t, text, []byte(testkit.Content(t, name)))
			})
		}
	}
}

// A containerd that systemd did not start holds the lock of the metadata file.
func TestLockedContainerdMetadataIsUnknown(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, "v1 k8s.io containers abc")
	db, err := bbolt.Open(filepath.Join(root, containerdMeta), 0o600, nil)
	require.NoError(t, err)
	defer db.Close()
	assert.Equal(t, "containers: reading containerd's metadata "+containerdMeta+": locking the file: resource temporarily unavailable; a containerd that systemd did not start may be running",
		planned(t, h, Spec{Only: []string{"containers"}}, ToAudit)[0].Error)
}

// An audit compares containerd's images with the manifest, on an image root too.
func TestMissingImagesAreFound(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	text, err := (&manifest.Manifest{Images: []manifest.Image{{Name: "registry.example/app:1", Digest: digest}}}).Encode()
	require.NoError(t, err)
	h, root := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: string(text)})
	assert.Equal(t, []string{"image registry.example/app:1: containerd does not have the image: provision again"}, audit(t, h, "images-there"))
	metadata(t, root, "v1 k8s.io images registry.example/app:1")
	assert.Equal(t, []string{"image registry.example/app:1: containerd has : provision again"}, audit(t, h, "images-there"))
	require.NoError(t, os.WriteFile(filepath.Join(root, containerdMeta), []byte("no database"), 0o600))
	_, err = look(t, "images-there", h)
	require.ErrorContains(t, err, "reading containerd's metadata", "unreadable metadata must be an error")
	require.NoError(t, os.Remove(filepath.Join(root, manifest.Path)))
	assert.Empty(t, audit(t, h, "images-there"), "no manifest, no images that must be there")
}

// containerd leaves removed containers in free pages of its database. The rule
// wipes those pages and keeps the rest.
func TestRemovedContainersAreWipedFromTheMetadata(t *testing.T) {
	const secret = "the old cluster's secret"
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd})
	name := filepath.Join(root, containerdMeta)
	var keys strings.Builder
	for _, id := range []string{"one", "two", "three"} {
		// Longer than a page, as real specifications are.
		fmt.Fprintf(&keys, "v1 k8s.io containers %s spec = %s\n", id, containerMark+strings.Repeat(secret, 1000))
	}
	testkit.Bolt(t, name, keys.String()+"v1 k8s.io images pause digest = sha256:kept")
	db, err := bbolt.Open(name, 0o600, nil)
	require.NoError(t, err)
	bucket := func(tx *bbolt.Tx, path ...string) *bbolt.Bucket {
		b, err := tx.CreateBucketIfNotExists([]byte("v1"))
		for _, part := range path {
			require.NoError(t, err)
			b, err = b.CreateBucketIfNotExists([]byte(part))
		}
		require.NoError(t, err)
		return b
	}
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return bucket(tx, "k8s.io").DeleteBucket([]byte("containers")) }))
	require.NoError(t, db.Close())
	before := testkit.Content(t, name)
	require.Contains(t, before, secret)

	outcomes := apply(t, h, Spec{Only: []string{"containers-metadata"}})
	assert.Equal(t, plan.Done, outcomes[0].Status)
	after := testkit.Content(t, name)
	assert.NotContains(t, after, secret)
	assert.Equal(t, plan.Unchanged, apply(t, h, Spec{Only: []string{"containers-metadata"}})[0].Status)
	assert.Len(t, after, len(before))

	db, err = bbolt.Open(name, 0o600, nil) // checks nothing by itself
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, db.View(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			assert.NoError(t, err)
		}
		assert.Equal(t, "sha256:kept", string(tx.Bucket([]byte("v1")).Bucket([]byte("k8s.io")).Bucket([]byte("images")).Bucket([]byte("pause")).Get([]byte("digest"))))
		return nil
	}))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		return bucket(tx, "k8s.io", "containers", "new").Put([]byte("spec"), []byte(strings.Repeat("x", 100000)))
	}))
}

// The rule containers-metadata ignores containers that containerd still has.
func TestExistingContainersAreNotWiped(t *testing.T) {
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, "v1 k8s.io containers "+containerMark)
	assert.Equal(t, plan.Unchanged, apply(t, h, Spec{Only: []string{"containers-metadata"}})[0].Status)
}
