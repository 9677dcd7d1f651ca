package asset

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// sparse is a member in the PAX sparse format 0.1 that is one hole: a header of
// three blocks claims any size, and the archive has no content for it.
// https://www.gnu.org/software/tar/manual/html_node/PAX-1.html
func sparse(name string, size int64) []byte {
	var records strings.Builder
	for _, field := range [][2]string{
		{"GNU.sparse.major", "0"}, {"GNU.sparse.minor", "1"}, {"GNU.sparse.numblocks", "0"}, {"GNU.sparse.map", ""},
		{"GNU.sparse.name", name}, {"GNU.sparse.size", strconv.FormatInt(size, 10)},
	} {
		rest := " " + field[0] + "=" + field[1] + "\n"
		records.WriteString(strconv.Itoa(len(rest)+2) + rest) // each length has two digits
	}
	return append(extended(records.String()), packed([]*tar.Header{{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}})[:512]...)
}

// extended returns a PAX header of a kind that archive/tar does not write.
func extended(records string) []byte {
	data := packed([]*tar.Header{{Typeflag: tar.TypeReg, Name: "PaxHeaders.0/x", Size: int64(len(records)), Format: tar.FormatUSTAR}})[:512]
	data[156] = tar.TypeXHeader
	copy(data[148:156], "        ")
	sum := 0
	for _, b := range data {
		sum += int(b)
	}
	copy(data[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return append(append(data, records...), make([]byte, -len(records)&511)...)
}

// zeros returns a member that gzip compresses to a thousandth of its size.
func zeros(name string, size int) []byte {
	return append(packed([]*tar.Header{{Typeflag: tar.TypeReg, Name: name, Size: int64(size)}})[:512], make([]byte, size)...)
}

// below returns files in nested folders that have no members.
func below(files, folders int) []*tar.Header {
	var members []*tar.Header
	for i := range files {
		members = append(members, regular(strconv.Itoa(i)+"/"+strings.Repeat("a/", folders)+"x"))
	}
	return members
}

// A file of the machine that is in the way stops the installation before any member
// is installed.
func TestAFileInTheWayStopsTheInstallation(t *testing.T) {
	for name, test := range map[string]struct {
		lay func(t *testing.T, bin string)
		err string
	}{
		"a folder": {func(t *testing.T, bin string) { require.NoError(t, os.MkdirAll(filepath.Join(bin, "bridge"), 0o755)) }, "/opt/cni/bin/bridge is in the way: it is neither a file nor a link"},
		"a FIFO":   {func(t *testing.T, bin string) { require.NoError(t, unix.Mkfifo(filepath.Join(bin, "bridge"), 0o600)) }, "/opt/cni/bin/bridge is in the way: it is neither a file nor a link"},
		"a file as a folder": {func(t *testing.T, bin string) {
			require.NoError(t, os.WriteFile(filepath.Join(bin, "sub"), nil, 0o600))
		}, "/opt/cni/bin/sub is in the way: it is not a folder"},
		"a link to nowhere": {func(t *testing.T, bin string) { require.NoError(t, os.Symlink("/nowhere", filepath.Join(bin, "sub"))) }, "/opt/cni/bin/sub is in the way: it is not a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(archived, tgz(t, regular("a"), regular("sub/tool"), regular("bridge")))
			h := newMachine(t, map[string]string{"opt/cni/bin/a": "the old one"})
			bin := filepath.Join(h.root, "opt/cni/bin")
			test.lay(t, bin)
			_, err := Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
			require.EqualError(t, err, "unpacking cni-plugins 1.10.0: "+test.err+"; move it away; nothing was installed")
			text := testkit.Content(t, filepath.Join(bin, "a"))
			assert.Equal(t, "the old one", text)
			left, err := m.archive(archived).Leftover(h.Host)
			require.NoError(t, err)
			assert.Empty(t, left)
		})
	}
}
