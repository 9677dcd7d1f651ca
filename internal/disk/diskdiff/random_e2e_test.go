//go:build e2e && linux

package diskdiff_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
)

// The names, types, modes, owners, targets and link counts of find(1), and the contents
// of diff(1), say the same about hundreds of random changes.
func TestRandomChangesAreThoseOfFindAndDiff(t *testing.T) {
	for seed, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			root := tree(t, nil)
			for range 300 {
				grow(t, random, root)
			}
			before := image(t, kind, root)
			for range 400 {
				if random.IntN(2) == 0 {
					grow(t, random, root)
				} else {
					alter(t, random, root)
				}
			}
			after := image(t, kind, root)
			r := compared(t, before, after)
			require.Greater(t, len(r.Files), 150)
			require.Equal(t, expected(t, before, after), simple(r))
		})
	}
}

func somewhere(t *testing.T, random *rand.Rand, root string, folder bool) string {
	var all []string
	require.NoError(t, filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if folder == e.IsDir() && !strings.HasPrefix(path, root+"/etc") {
			all = append(all, path)
		}
		return err
	}))
	if len(all) == 0 {
		return root
	}
	return all[random.IntN(len(all))]
}

// grow makes a random file.
func grow(t *testing.T, random *rand.Rand, root string) {
	path := filepath.Join(somewhere(t, random, root, true), fmt.Sprintf("f%d", random.IntN(40)))
	if _, err := os.Lstat(path); err == nil {
		return
	}
	switch random.IntN(8) {
	case 0, 1:
		require.NoError(t, os.Mkdir(path, 0o755))
	case 2:
		require.NoError(t, os.Symlink(fmt.Sprint("to", random.IntN(9)), path))
	case 3:
		require.NoError(t, unix.Mkfifo(path, 0o644))
	case 4:
		if from := somewhere(t, random, root, false); from != root {
			require.NoError(t, os.Link(from, path))
		}
	default:
		require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("x", random.IntN(9000))), 0o644))
	}
}

// alter changes or removes a random file.
func alter(t *testing.T, random *rand.Rand, root string) {
	path := somewhere(t, random, root, random.IntN(4) == 0)
	if path == root {
		return
	}
	info, err := os.Lstat(path)
	require.NoError(t, err)
	switch n := random.IntN(5); {
	case n == 0:
		require.NoError(t, os.Lchown(path, random.IntN(5), random.IntN(5)))
	case n == 1 && info.Mode()&os.ModeSymlink == 0:
		require.NoError(t, unix.Chmod(path, uint32(random.IntN(0o7777))|0o400))
	case n == 2:
		require.NoError(t, os.RemoveAll(path))
	case info.Mode().IsRegular():
		// The same size often, and the same content sometimes.
		text := []byte(testkit.Content(t, path))
		if len(text) > 0 {
			text[random.IntN(len(text))] = byte('x' + random.IntN(2))
		}
		require.NoError(t, os.WriteFile(path, text, 0o644))
	case info.Mode()&os.ModeSymlink != 0:
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(fmt.Sprint("to", random.IntN(9)), path))
	}
}

// simple is a result without sizes: what differs by path.
func simple(r diskdiff.Result) map[string]string {
	all := map[string]string{}
	for _, f := range r.Files {
		switch {
		case f.Before == nil:
			all[f.Path] = "added"
		case f.After == nil:
			all[f.Path] = "removed"
		default:
			all[f.Path] = strings.Join(slices.DeleteFunc(f.Differs, func(what string) bool { return what == "size" }), ", ")
		}
	}
	return all
}

// expected mounts two disks and compares them with find and diff.
func expected(t *testing.T, before, after string) map[string]string {
	t.Helper()
	out := sh(t, `mkdir -p "$3/a" "$3/b"; n=a
for disk in "$1" "$2"; do mount -o loop,ro,offset=1048576 "$disk" "$3/$n"; n=b; done
cd "$3"; a=a b=b; [ -e a/etc ] || { a=a/root b=b/root; }
for side in $a $b; do find $side -printf '/%P\t%y\t%m\t%U:%G\t%l\t%n\n'; echo; done
diff -rq --no-dereference $a $b | sed -n 's#^Files \(.*\) and .* differ$#\1#p' | sed "s#^$a##"; umount a b`, before, after, t.TempDir())
	parts := strings.SplitN(out, "\n\n", 3)
	sides, all := [2]map[string][]string{{}, {}}, map[string]string{}
	for n := range sides {
		for line := range strings.SplitSeq(strings.TrimSpace(parts[n]), "\n") {
			fields := strings.Split(line, "\t")
			sides[n][fields[0]] = fields[1:]
		}
	}
	content := map[string]bool{}
	for path := range strings.SplitSeq(parts[2], "\n") {
		content[path] = true
	}
	both := maps.Clone(sides[0])
	maps.Copy(both, sides[1])
	for path := range both {
		was, is := sides[0][path], sides[1][path]
		switch {
		case was == nil:
			all[path] = "added"
		case is == nil:
			all[path] = "removed"
		case was[0] != is[0]:
			all[path] = "type"
		default:
			var list []string
			for _, one := range []struct {
				differ bool
				what   string
			}{
				{content[path], "content"}, {was[3] != is[3], "target"}, {was[1] != is[1], "mode"}, {was[2] != is[2], "owner"}, {was[4] != is[4] && was[0] != "d", "hard links"},
			} {
				if one.differ {
					list = append(list, one.what)
				}
			}
			if len(list) > 0 {
				all[path] = strings.Join(list, ", ")
			}
		}
	}
	return all
}
