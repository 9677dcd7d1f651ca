package disk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const mib = 1 << 20

// script is a row of a table: what a test runs, and what it expects.
type script struct{ Script, Want string }

// table reads a table of the folder testdata.
func table[Row any](t *testing.T, name string) (rows map[string]Row) {
	t.Helper()
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, filepath.Join("testdata", name))), &rows))
	return rows
}

// sh runs a script in a mount namespace of its own. The folder has the files. A loop
// device that the script makes and gives back has gone when it returns.
func sh(t testing.TB, folder, script string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "unshare", append([]string{"--mount", "--propagation", "private", "sh", "-euc", script, "sh"}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC",
		// mkfs.xfs makes file systems below 300 MB only for its own tests.
		"TEST_DIR=.", "TEST_DEV=.", "QA_CHECK_FS=1", "MKE2FS_SYNC=0")
	out := testkit.Output(t, cmd)
	if strings.Contains(script, "mount -o loop") || strings.Contains(script, "losetup -d") {
		testkit.Released(t, folder)
	}
	return out
}

// garbage is a MiB of random bytes, always the same.
func garbage() []byte {
	p := make([]byte, mib)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(p)
	return p
}

// full makes a file of random bytes.
func full(t *testing.T, name string, size int64) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	p := garbage()
	for left := size; left > 0; left -= int64(len(p)) {
		_, err := f.Write(p[:min(left, int64(len(p)))])
		require.NoError(t, err)
	}
}

// sparse makes a file that is one hole.
func sparse(t *testing.T, name string, size int64) string {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(size))
	return name
}

func put(t *testing.T, name string, off int64, p []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteAt(p, off)
	require.NoError(t, err)
}

func laidOut(t *testing.T, name string) (*Image, *Layout) {
	t.Helper()
	image, err := Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { image.Close() })
	return image, image.Layout
}

// usedOnGarbage writes the used bytes of an image into a file of random bytes.
func usedOnGarbage(t *testing.T, from *Image, to string) {
	t.Helper()
	full(t, to, from.Size())
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	used := []Range{{0, from.Size()}}
	used = (&ranges{list: used}).without(from.Layout.Free).list
	require.Equal(t, from.Layout.UsedBytes(), total(used))
	p := make([]byte, mib)
	for _, r := range used {
		require.True(t, from.Layout.Used(r.Offset, r.Length))
		for off := r.Offset; off < r.End(); off += mib {
			part := p[:min(mib, r.End()-off)]
			_, err := from.ReadAt(part, off)
			require.NoError(t, err)
			_, err = f.WriteAt(part, off)
			require.NoError(t, err)
		}
	}
}

// blocksOnGarbage does the same in blocks of BlockSize, as an upload does.
func blocksOnGarbage(t *testing.T, from *Image, to string) {
	t.Helper()
	full(t, to, from.Size())
	writeBlocks(t, from, to)
}

func writeBlocks(t *testing.T, from *Image, to string) {
	t.Helper()
	f, err := os.OpenFile(to, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	p := make([]byte, BlockSize)
	for n := range from.Layout.Blocks() {
		_, err := from.Block(n, p)
		require.NoError(t, err)
		_, err = f.WriteAt(p[:min(BlockSize, from.Size()-n*BlockSize)], n*BlockSize)
		require.NoError(t, err)
	}
}

// arrives copies what is used onto random bytes, in both ways, and judges the copies.
func arrives(t *testing.T, folder string, image *Image, judge func(copied string)) {
	t.Helper()
	copied := filepath.Join(folder, "copy.raw")
	for _, by := range []func(*testing.T, *Image, string){usedOnGarbage, blocksOnGarbage} {
		by(t, image, copied)
		judge(copied)
	}
}

// sameSystem compares the free space of the file system on a whole disk with what its own
// tools count, give or take slack bytes. Copies pass the check, have the same files, and can
// be written to. Without files, this kernel does not mount the file system.
func sameSystem(t *testing.T, folder, disk, files string, counted, slack int64, check, options string) {
	t.Helper()
	image, layout := laidOut(t, disk)
	require.Len(t, layout.Partitions, 1)
	require.Empty(t, layout.Partitions[0].Whole)
	assert.LessOrEqual(t, layout.Partitions[0].Free, counted)
	assert.GreaterOrEqual(t, layout.Partitions[0].Free, counted-slack)
	t.Logf("%d bytes are free, the tools count %d", layout.Partitions[0].Free, counted)
	want := ""
	if files != "" {
		want = sh(t, folder, listing, disk, "", options)
	}
	arrives(t, folder, image, func(copied string) {
		sh(t, folder, check+` "$1"`, copied)
		if files == "" {
			return
		}
		assert.Equal(t, want, sh(t, folder, listing, copied, "", options))
		sh(t, folder, use, copied, files)
		sh(t, folder, check+` "$1"`, copied)
	})
}

// tree makes a folder with files of many sizes, and returns its path.
func tree(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	p := garbage()
	for i := range 300 {
		sub := filepath.Join(folder, "d"+string(rune('a'+i%7)))
		require.NoError(t, os.MkdirAll(sub, 0o755))
		size := []int{0, 40, 700, 5000, 20000, 70000}[i%6]
		name := filepath.Join(sub, "f"+strings.Repeat("x", i%90)+string(rune('a'+i%26))+string(rune('a'+i/26)))
		require.NoError(t, os.WriteFile(name, p[i:i+size], 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "large"), bytes.Repeat(p[:700<<10], 6), 0o644))
	return folder
}

// Root returns the only partition that can be the root.
func (l *Layout) Root(number int) (Partition, error) {
	roots, err := l.Roots(number)
	switch {
	case err != nil:
		return Partition{}, err
	case len(roots) > 1:
		return Partition{}, SeveralRoots(roots)
	}
	return roots[0], nil
}
