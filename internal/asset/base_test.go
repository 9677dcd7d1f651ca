package asset

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Each form of checksum file is that of a publisher: Debian, Ubuntu and Fedora.
func TestBaseImagesAreVerified(t *testing.T) {
	content := strings.Repeat("disk", 1000)
	sha2, sha5 := fmt.Sprintf("%x", sha256.Sum256([]byte(content))), fmt.Sprintf("%x", sha512.Sum512([]byte(content)))
	for name, c := range map[string]struct{ sums, pinned, address, why string }{
		"SHA-512":                {sums: sha5 + "  node-2.qcow2\n"},
		"binary mark":            {sums: sha2 + " *node-2.qcow2\n"},
		"BSD":                    {sums: "# node-2.qcow2: 4000 bytes\nSHA256 (node-2.qcow2) = " + sha2 + "\n"},
		"the last of two":        {sums: strings.Repeat("0", 64) + "  node-1.qcow2\n" + sha2 + "  node-2.qcow2\n"},
		"pinned":                 {pinned: strings.ToUpper(sha2)},
		"signed address":         {pinned: sha2, address: "/node-2.qcow2?X-Amz-Signature=a%2Fb"},
		"escaped address":        {pinned: sha2, address: "/node%2D2.qcow2"},
		"not an address":         {pinned: sha2, address: ":secret/node-2.qcow2", why: "the address of the base image"},
		"wrong":                  {sums: strings.Repeat("0", 64) + "  node-2.qcow2\n", why: "its checksum is " + sha2},
		"not listed":             {sums: sha2 + "  other.qcow2\n", why: "the file does not list node-*.qcow2"},
		"two sums of one file":   {sums: sha2 + "  node-2.qcow2\n" + strings.Repeat("0", 64) + "  node-2.qcow2\n", why: "two different sums"},
		"a sum of another kind":  {sums: strings.Repeat("0", 40) + "  node-2.qcow2\n", why: "does not list"},
		"a pin of another kind":  {pinned: "md5", why: "neither a SHA-256 nor a SHA-512"},
		"no checksum":            {why: "has no checksum"},
		"a page instead of sums": {sums: "<html>Please log in</html>\n", why: "does not list"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.files["/node-2.qcow2"], m.files["/SUMS"] = []byte(content), []byte(c.sums)
			b := Base{URL: m.URL + "/node-*.qcow2", Sum: c.pinned}
			if c.sums != "" {
				b.Sums = m.URL + "/SUMS"
			}
			if c.pinned != "" {
				b.URL = m.URL + cmp.Or(c.address, "/node-2.qcow2")
			}
			cache := NewCache(t.TempDir(), hasty())
			path, err := cache.Base(t.Context(), b, quietly)
			if c.why != "" {
				require.ErrorContains(t, err, c.why)
				require.NotContains(t, err.Error(), "secret")
				return
			}
			require.NoError(t, err)
			got := testkit.Content(t, path)
			assert.Equal(t, content, got)

			require.NoError(t, os.WriteFile(path, []byte("damaged"), 0o600))
			_, err = cache.Base(t.Context(), b, quietly)
			require.NoError(t, err)
			require.NoError(t, CheckSum(t.Context(), path, sha2))
		})
	}
}

// A server may send an image without its size.
func TestABaseImageWithoutASize(t *testing.T) {
	m := newMirror(t)
	content := strings.Repeat("disk", 1000)
	m.faults["/node.qcow2"] = func(w http.ResponseWriter, _ *http.Request) {
		assert.NoError(t, http.NewResponseController(w).Flush())
		_, _ = w.Write([]byte(content))
	}
	b := Base{URL: m.URL + "/node.qcow2", Sum: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))}
	var last [2]int64
	_, err := NewCache(t.TempDir(), hasty()).Base(t.Context(), b, func(done, total int64) { last = [2]int64{done, total} })
	require.NoError(t, err)
	assert.Equal(t, [2]int64{4000, 0}, last)
}
