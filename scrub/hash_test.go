//go:build linux

package scrub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// Hashing a file of 1 TiB takes an hour. It stops when the context is cancelled,
// and the file is still there.
func TestHashingStopsWithTheContext(t *testing.T) {
	h, root := tree(t, map[string]string{"etc/passwd": passwd, "var/lib/cni/huge": ""})
	huge := filepath.Join(root, "var/lib/cni/huge")
	require.NoError(t, os.Truncate(huge, 1<<40))
	items, err := Spec{Only: []string{"cni-state"}, Hash: true}.Items(nil)
	require.NoError(t, err)
	gone := errors.New("terminated")
	ctx, cancel := context.WithCancelCause(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := plan.Apply(ctx, h, items, nil)
		over <- err
	}()
	require.Eventually(t, func() bool { return isOpen(huge) }, time.Minute, 10*time.Millisecond)
	cancel(gone)
	select {
	case err := <-over:
		require.ErrorIs(t, err, gone)
		assert.ErrorContains(t, err, "cni-state: empty /var/lib/cni: hashing: ")
	case <-time.After(time.Minute):
		t.Fatal("hashing continues after the context was cancelled")
	}
	assert.FileExists(t, huge)
}

// isOpen says whether this process has a file open.
func isOpen(name string) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == name {
			return true
		}
	}
	return false
}

// Only removed regular files are hashed: not the target of a removed link, and
// not a FIFO.
func TestOnlyRemovedFilesAreHashed(t *testing.T) {
	h, root := tree(t, map[string]string{
		"etc/passwd": passwd, "kept/file": "x", "root/.aws": "-> /kept", "root/.kube/config": "x", "var/lib/cni": "-> /data", "data/lease": "x",
	})
	require.NoError(t, unix.Mkfifo(filepath.Join(root, "root/.kube/fifo"), 0o600))
	outcomes := apply(t, h, Spec{Only: []string{"credentials", "cni-state"}, Hash: true})
	var hashed []string
	for _, o := range outcomes {
		for _, a := range o.Actions {
			for _, f := range a.Files {
				hashed = append(hashed, f.Path)
			}
		}
	}
	assert.ElementsMatch(t, []string{"/root/.kube/config", "/var/lib/cni/lease"}, hashed)
	assert.FileExists(t, filepath.Join(root, "kept/file"))
}
