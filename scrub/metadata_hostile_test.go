//go:build linux

package scrub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// containerd leaves removed containers in free pages of its database. The rule
// wipes those pages and keeps the rest.
func TestRemovedContainersAreWipedFromTheMetadata(t *testing.T) {
	const secret = "the old cluster's secret"
	h, root := surrounded(t, map[string]string{"etc/passwd": passwd})
	name := filepath.Join(root, containerdMeta)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
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
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for _, id := range []string{"one", "two", "three"} {
			// Longer than a page, as real specifications are.
			spec := containerMark + strings.Repeat(secret, 1000)
			require.NoError(t, bucket(tx, "k8s.io", "containers", id).Put([]byte("spec"), []byte(spec)))
		}
		return bucket(tx, "k8s.io", "images", "pause").Put([]byte("digest"), []byte("sha256:kept"))
	}))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error { return bucket(tx, "k8s.io").DeleteBucket([]byte("containers")) }))
	require.NoError(t, db.Close())
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(before), secret)

	outcomes := apply(t, h, Spec{Only: []string{"containers-metadata"}})
	assert.Equal(t, plan.Done, outcomes[0].Status)
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.NotContains(t, string(after), secret)
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
	metadata(t, root, []string{"k8s.io", "containers", containerMark})
	assert.Equal(t, plan.Unchanged, apply(t, h, Spec{Only: []string{"containers-metadata"}})[0].Status)
}
