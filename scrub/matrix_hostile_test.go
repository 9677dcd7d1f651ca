//go:build linux

package scrub

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// laid returns what lays out the files that a rule changes, or nil for a rule that only looks.
func laid(t *testing.T, r Rule) func(root string) {
	if r.Look == nil {
		return func(root string) {
			for _, n := range allInstances(r, []string{"a1"}) {
				put(t, root, n)
			}
		}
	}
	i := slices.IndexFunc(found()[r.ID], func(c findCase) bool { return c.Changes != nil })
	if i < 0 || r.Phase == Inspect {
		return nil
	}
	return func(root string) { hosttest.Lay(t, root, found()[r.ID][i].Files) }
}

// fillDisk writes a file until its disk is full.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, unix.ENOSPC)
	require.NoError(t, errors.Join(f.Sync(), f.Close()))
}

// What a rule cannot do on a read-only disk, on a full disk or below a mount is an error that says
// why. It loses nothing, and the next run ends as an undisturbed one.
func TestEveryRuleOnDisksThatResist(t *testing.T) {
	for _, r := range Table() {
		build := laid(t, r)
		if build == nil {
			continue
		}
		before, want := applied(t, r, build)
		only := Spec{Only: []string{r.ID}}
		open := func(t *testing.T, mount string) string {
			t.Helper()
			root := t.TempDir()
			shell(t, "mount -t tmpfs -o size=4m,mode=755 tmpfs '"+root+"'")
			t.Cleanup(func() { shell(t, "umount '"+root+"'") })
			lay(t, root, common())
			build(root)
			require.Empty(t, diff(before, testkit.TreeOf(t, root)))
			if mount != "" {
				shell(t, mount+" '"+root+"'")
			}
			return root
		}
		ends := func(t *testing.T, root string) {
			t.Helper()
			apply(t, lay(t, root, nil), only)
			assert.Empty(t, diff(want, testkit.TreeOf(t, root)))
		}
		t.Run(r.ID+"/read-only", func(t *testing.T) {
			root := open(t, "mount -o remount,ro")
			_, err := attempt(t, lay(t, root, nil), only)
			require.ErrorContains(t, err, "read-only file system (mount -o remount,rw makes it writable)")
			assert.True(t, strings.HasPrefix(err.Error(), r.ID+": "), err.Error())
			assert.Empty(t, diff(before, testkit.TreeOf(t, root)))
			shell(t, "mount -o remount,rw '"+root+"'")
			ends(t, root)
			shell(t, "mount -o remount,ro '"+root+"'")
			ends(t, root) // nothing is left to do
		})
		t.Run(r.ID+"/full", func(t *testing.T) {
			root := open(t, "")
			fillDisk(t, filepath.Join(root, "ballast"))
			_, err := attempt(t, lay(t, root, nil), only)
			if err != nil {
				require.ErrorContains(t, err, "no space left on device")
			}
			require.NoError(t, os.Remove(filepath.Join(root, "ballast")))
			after, expected := testkit.TreeOf(t, root), diff(before, want)
			for _, d := range diff(before, after) {
				assert.Contains(t, expected, d)
			}
			if err == nil {
				assert.Empty(t, diff(want, after))
			}
			ends(t, root)
		})
		if r.Look != nil {
			continue
		}
		t.Run(r.ID+"/mount", func(t *testing.T) {
			root := open(t, "")
			all := allInstances(r, []string{"a1"})
			name, outside := all[len(all)-1], t.TempDir()
			at := filepath.Join(root, name)
			require.NoError(t, os.RemoveAll(at))
			require.NoError(t, os.Mkdir(at, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600))
			shell(t, "mount --bind '"+outside+"' '"+at+"'")
			scrubbed, audited := result(t, root, only)
			shell(t, "umount '"+at+"'")
			for _, r := range []plan.Report{scrubbed, audited} {
				said := strings.Join(append(findings(r), r.Error), "\n")
				assert.Contains(t, said, "unmount "+name+", or skip the rule")
			}
			assert.FileExists(t, filepath.Join(outside, "precious"))
			require.NoError(t, os.Remove(at))
			put(t, root, name)
			ends(t, root)
		})
	}
}
