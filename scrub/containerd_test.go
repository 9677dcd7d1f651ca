//go:build linux

package scrub

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// metadata writes a containerd metadata store with these buckets.
func metadata(t *testing.T, root string, paths ...[]string) {
	t.Helper()
	name := filepath.Join(root, containerdMeta)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	db, err := bbolt.Open(name, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for _, p := range paths {
			b, err := tx.CreateBucketIfNotExists([]byte("v1"))
			for _, part := range p {
				if err == nil {
					b, err = b.CreateBucketIfNotExists([]byte(part))
				}
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(t, db.Close())
}

func TestContainersOfAStoppedContainerdAreFindings(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, []string{"k8s.io", "images", "pause"}, []string{"k8s.io", "containers", "abc"}, []string{"k8s.io", "leases", "l1"})
	before, err := os.ReadFile(filepath.Join(root, containerdMeta))
	require.NoError(t, err)
	outcomes := apply(t, h, Spec{Only: []string{"containers"}})
	var targets []string
	for _, f := range outcomes[0].Findings {
		targets = append(targets, f.Target)
	}
	assert.Equal(t, []string{"container k8s.io/abc", "lease k8s.io/l1"}, targets)
	after, err := os.ReadFile(filepath.Join(root, containerdMeta))
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

func TestImagesOfContainerdAreNoFinding(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, []string{"k8s.io", "images", "pause"}, []string{"k8s.io", "content", "blob"})
	assert.Empty(t, apply(t, h, Spec{Only: []string{"containers"}})[0].Findings)
}

// If containerd's metadata cannot be read, the audit's result is "unknown", never
// "clean".
func TestUnreadableContainerdMetadataIsUnknown(t *testing.T) {
	h, _ := tree(t, map[string]string{"etc/passwd": passwd, containerdMeta[1:]: "not a database"})
	items, err := Spec{Only: []string{"containers"}}.AuditItems(nil)
	require.NoError(t, err)
	var r plan.Report
	r.Audited(plan.Look(t.Context(), h, items, nil))
	assert.Equal(t, plan.Unknown, r.Result)
	assert.Contains(t, r.Error, "reading containerd's metadata "+containerdMeta)
}

// The error of truncated or damaged metadata names the file. The audit completes,
// and the file stays as it is.
func TestTruncatedContainerdMetadataIsUnknown(t *testing.T) {
	manifested, err := (&manifest.Manifest{Images: []manifest.Image{{Name: "pause", Digest: "sha256:0"}}}).Encode()
	require.NoError(t, err)
	h, root := tree(t, map[string]string{"etc/passwd": passwd, manifest.Path[1:]: string(manifested)})
	metadata(t, root, []string{"k8s.io", "images", "pause"}, []string{"k8s.io", "containers", "abc"})
	name := filepath.Join(root, containerdMeta)
	whole, err := os.ReadFile(name)
	require.NoError(t, err)
	damaged := bytes.Clone(whole)
	for at := 2*4096 + 8; at < len(damaged); at += 512 {
		damaged[at] ^= 0xFF
	}
	for what, text := range map[string][]byte{"empty": {}, "one page": whole[:4096], "two pages and a bit": whole[:4096*2+100], "damaged": damaged, "zeros": make([]byte, len(whole))} {
		for _, rule := range []string{"containers", "containers-metadata", "images-there"} {
			t.Run(what+"/"+rule, func(t *testing.T) {
				require.NoError(t, os.WriteFile(name, text, 0o600))
				items, err := Spec{Only: []string{rule}}.AuditItems(nil)
				require.NoError(t, err)
				var r plan.Report
				r.Audited(plan.Look(t.Context(), h, items, nil))
				assert.Equal(t, plan.Unknown, r.Result)
				assert.Contains(t, r.Error, rule+": reading containerd's metadata "+containerdMeta+": ")
				after, err := os.ReadFile(name)
				require.NoError(t, err)
				assert.Equal(t, text, after)
			})
		}
	}
}

// A containerd that systemd did not start holds the lock of the metadata file.
func TestLockedContainerdMetadataIsUnknown(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd})
	metadata(t, root, []string{"k8s.io", "containers", "abc"})
	db, err := bbolt.Open(filepath.Join(root, containerdMeta), 0o600, nil)
	require.NoError(t, err)
	defer db.Close()
	items, err := Spec{Only: []string{"containers"}}.AuditItems(nil)
	require.NoError(t, err)
	assert.Equal(t, "containers: reading containerd's metadata "+containerdMeta+": locking the file: resource temporarily unavailable; a containerd that systemd did not start may be running",
		plan.Make(t.Context(), h, items)[0].Error)
}
