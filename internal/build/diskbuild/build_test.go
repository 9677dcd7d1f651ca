package diskbuild

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

func TestSecretsOfAnAddressAreNotPrinted(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		assert.Equal(t, []string{"secret", "X-Amz-Signature=secret"}, []string{password, r.URL.RawQuery})
		fmt.Fprint(w, "disk")
	}))
	defer server.Close()
	s := Spec{
		Base:  strings.Replace(server.URL, "//", "//me:secret@", 1) + "/node.qcow2?X-Amz-Signature=secret",
		Image: "node.raw",
	}
	where := server.URL + "/node.qcow2"
	require.EqualError(t, s.Validate(), "base_checksum is missing: give the SHA-256 or SHA-512 of "+where+
		"; nothing is used without one")

	s.Checksum = fmt.Sprintf("%x", sha256.Sum256([]byte("disk")))
	var said []string
	say := func(text string) { said = append(said, text) }
	file, name, err := s.Find(t.Context(), t.TempDir(), say, func(int64, int64) {})
	require.NoError(t, err)
	assert.Equal(t, "disk", testkit.Content(t, file))
	assert.Equal(t, []string{where, "base image: " + where}, append([]string{name}, said...))
}
