package main

import (
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lock file records a tag's digest. A tag that moves later has no effect until
// "eksnode lock" runs again.
func TestImagesAreLockedByDigest(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	text := strings.TrimPrefix(server.URL, "http://") + "/team/app:1.2"
	tag, err := name.NewTag(text)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "eksnode.lock.json")
	push := func() string {
		one, err := random.Image(100, 1)
		require.NoError(t, err)
		require.NoError(t, remote.Write(tag, one))
		digest, err := one.Digest()
		require.NoError(t, err)
		return digest.String()
	}
	lock := func(image string) (code int, said, wrong string) {
		var out, errs bytes.Buffer
		code = run(t.Context(), []string{"lock", "--file", file, "--images", image}, nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	first := push()
	code, said, wrong := lock(text)
	require.Zero(t, code, wrong)
	assert.Equal(t, "new       image "+text+", "+first+"\n", said)
	_, said, _ = lock(text + "@" + first)
	assert.Equal(t, "unchanged image "+text+", "+first+"\n", said)
	second := push()
	l, err := readLock(file)
	require.NoError(t, err)
	digest, ok := l.Image(text)
	assert.True(t, ok)
	assert.Equal(t, first, digest)
	before, err := os.ReadFile(file)
	require.NoError(t, err)
	for image, want := range map[string]string{
		text + "@" + first: "eksnode: locking the image " + text + "@" + first + ": the digest of the tag is now " + second + "; use this digest, or leave out the digest\n",
		"pause:3.10":       "eksnode: --images: \"pause:3.10\" names no registry; write the full name, such as docker.io/library/busybox:1.37\n",
	} {
		code, _, wrong = lock(image)
		assert.Equal(t, 2, code)
		assert.Equal(t, want, wrong)
	}
	_, _, wrong = lock(strings.Replace(text, ":1.2", ":1.3", 1))
	assert.Contains(t, wrong, "the registry does not have the image")
	after, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(before), string(after))
	_, said, _ = lock(text)
	assert.Equal(t, "changed   image "+text+", "+second+"\n", said)
}
