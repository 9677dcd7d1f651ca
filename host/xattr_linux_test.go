package host

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Attributes and targets are those of the entry itself, also of links, sockets and
// FIFOs. Nothing is followed or opened.
func TestExtendedAttributesOfEveryKind(t *testing.T) {
	i := newImage(t)
	long := strings.Repeat("x", 2000)
	i.put(t, "file", "")
	require.NoError(t, unix.Setxattr(filepath.Join(i.root, "file"), "trusted.long", []byte(long), 0))
	require.NoError(t, unix.Setxattr(filepath.Join(i.root, "file"), "user.binary", []byte("\x00\xff"), 0))
	require.NoError(t, unix.Setxattr(filepath.Join(i.root, "etc"), "user.empty", nil, 0))
	i.link(t, "/etc", "link")
	require.NoError(t, unix.Lsetxattr(filepath.Join(i.root, "link"), "trusted.link", []byte("l"), 0))
	require.NoError(t, unix.Mkfifo(filepath.Join(i.root, "fifo"), 0o600))
	require.NoError(t, unix.Mknod(filepath.Join(i.root, "device"), unix.S_IFCHR|0o600, 0))
	s, err := net.Listen("unix", filepath.Join(i.root, "s"))
	require.NoError(t, err)
	defer s.Close()

	found, targets := map[string]map[string]string{}, map[string]string{}
	_, err = i.Files.Walk(t.Context(), "/", "/", func(e Entry, err error) error {
		require.NoError(t, err)
		found[e.Path], err = e.ExtendedAttributes()
		require.NoError(t, err)
		if e.Mode()&os.ModeSymlink != 0 {
			targets[e.Path], err = e.Readlink()
			require.NoError(t, err)
		}
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]map[string]string{
		"/": {}, "/etc": {"user.empty": ""}, "/file": {"trusted.long": long, "user.binary": "\x00\xff"}, "/link": {"trusted.link": "l"}, "/fifo": {}, "/device": {}, "/s": {},
	}, found)
	assert.Equal(t, map[string]string{"/link": "/etc"}, targets)
}
