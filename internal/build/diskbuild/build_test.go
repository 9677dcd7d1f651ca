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

func TestOptionsWithoutEffectAreRefused(t *testing.T) {
	for want, s := range map[string]Spec{
		"disk_size: a disk of 17179869184 GiB: give a size from 1 to 65536": {Base: "/base.raw", Size: 16 << 30},
		`base_checksum is for files and addresses; "debian-13" is verified with the publisher's checksum file: to pin one image, give its address as base`: {
			Base: "debian-13", Arch: "amd64", Checksum: strings.Repeat("0", 64)},
	} {
		s.Image = "node.raw"
		assert.EqualError(t, s.Validate(), want)
	}
}

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
