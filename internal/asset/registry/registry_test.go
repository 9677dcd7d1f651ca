package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/image"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset/registry"
)

// served is a registry on this machine with an image for two architectures.
type served struct {
	host  string
	arm   v1.Image
	index v1.Hash
	// fault answers requests for which it returns true.
	fault func(http.ResponseWriter, *http.Request) bool
}

func serve(t *testing.T) *served {
	t.Helper()
	s := &served{fault: func(http.ResponseWriter, *http.Request) bool { return false }}
	inner := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.fault(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // no login
	s.host = strings.TrimPrefix(server.URL, "http://")
	var list v1.ImageIndex = empty.Index
	for _, arch := range []string{"amd64", "arm64"} {
		s.arm = imageFor(t, arch)
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: s.arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	s.push(t, "3.10", list)
	s.push(t, "arm", s.arm)
	var err error
	s.index, err = list.Digest()
	require.NoError(t, err)
	return s
}

func imageFor(t *testing.T, arch string) v1.Image {
	t.Helper()
	bare, err := random.Image(10_000, 2)
	require.NoError(t, err)
	config, err := bare.ConfigFile()
	require.NoError(t, err)
	one, err := mutate.ConfigFile(bare, &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: config.RootFS})
	require.NoError(t, err)
	return one
}

// push puts an image or a list of images under a tag.
func (s *served) push(t *testing.T, tag string, what remote.Taggable) {
	t.Helper()
	at, err := name.NewTag(s.host + "/eks/pause:" + tag)
	require.NoError(t, err)
	if list, ok := what.(v1.ImageIndex); ok {
		require.NoError(t, remote.WriteIndex(at, list))
		return
	}
	one, ok := what.(v1.Image)
	require.True(t, ok)
	require.NoError(t, remote.Write(at, one))
}

func (s *served) reference(t *testing.T) image.Reference {
	t.Helper()
	r, err := image.ParseReference(s.host + "/eks/pause:3.10@" + s.index.String())
	require.NoError(t, err)
	return r
}

// fetcher returns a Fetcher that does not pause between attempts.
func fetcher() *asset.Fetcher {
	return asset.NewFetcher(asset.Patience{Attempts: 3, Wait: time.Millisecond, Stall: time.Minute})
}

func open(t *testing.T) *registry.Registry {
	t.Helper()
	r, err := registry.New(nil, fetcher())
	require.NoError(t, err)
	return r
}

const as = "localhost/kubernetes/pause:latest"

// pull writes an image's archive for an architecture.
func pull(t *testing.T, from image.Source, r image.Reference, arch, as string, to io.Writer) (digest string, err error) {
	t.Helper()
	i, err := image.Choose(t.Context(), from, r, arch)
	if err != nil {
		return "", err
	}
	return i.Digest, i.Write(t.Context(), from, r, as, to)
}

// members are the files of an archive by name.
func members(t *testing.T, data []byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		all[head.Name] = string(content)
	}
}

// checkArchive checks that an archive contains only the image for arm64.
func (s *served) checkArchive(t *testing.T, data []byte, target string) {
	t.Helper()
	digest, err := s.arm.Digest()
	require.NoError(t, err)
	assert.Equal(t, digest.String(), target)
	size, err := s.arm.Size()
	require.NoError(t, err)
	all := members(t, data)
	assert.JSONEq(t, fmt.Sprintf(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{
		"mediaType":"application/vnd.docker.distribution.manifest.v2+json","digest":%q,"size":%d,
		"annotations":{"io.containerd.image.name":%q,"org.opencontainers.image.ref.name":"latest"}}]}`, target, size, as), all["index.json"])
	assert.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, all["oci-layout"])
	assert.Len(t, all, 2+4)
	m, err := s.arm.Manifest()
	require.NoError(t, err)
	for _, part := range append(m.Layers, m.Config) {
		assert.Len(t, all["blobs/sha256/"+part.Digest.Hex], int(part.Size))
	}
}

func TestAnImageIsPulledByDigest(t *testing.T) {
	s := serve(t)
	r := s.reference(t)
	digest, err := open(t).Resolve(t.Context(), image.Reference{Name: r.Name})
	require.NoError(t, err)
	assert.Equal(t, r.Digest, digest)
	var one, again bytes.Buffer
	target, err := pull(t, open(t), r, "arm64", as, &one)
	require.NoError(t, err)
	s.checkArchive(t, one.Bytes(), target)
	_, err = pull(t, open(t), r, "arm64", as, &again)
	require.NoError(t, err)
	assert.Equal(t, one.Bytes(), again.Bytes(), "the same image must give the same archive")
}

func TestImagesAreReadFromAnArchive(t *testing.T) {
	s := serve(t)
	r := s.reference(t)
	name := filepath.Join(t.TempDir(), "pause.tar")
	file, err := os.Create(name)
	require.NoError(t, err)
	const published = "registry.example/x:1"
	r.Digest, err = pull(t, open(t), r, "arm64", published, file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	a, err := image.OpenArchive(name)
	require.NoError(t, err)
	defer a.Close()
	assert.True(t, a.Has(r.Digest))
	assert.Equal(t, r.Digest, a.Resolve(image.Reference{Name: published}))
	assert.Empty(t, a.Resolve(image.Reference{Name: "registry.example/x:2"}))
	var again bytes.Buffer
	got, err := pull(t, a, r, "arm64", as, &again)
	require.NoError(t, err)
	s.checkArchive(t, again.Bytes(), got)
	_, err = pull(t, a, r, "amd64", as, io.Discard)
	require.EqualError(t, err, "choosing from the image "+r.String()+": the image is for linux/arm64, but the machine is linux/amd64")
}

func TestErrorsOfARegistryNameTheRemedy(t *testing.T) {
	status := func(code int, part string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, part) {
				w.WriteHeader(code)
				return true
			}
			return false
		}
	}
	forged := func(part, text string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, part) {
				_, _ = io.WriteString(w, text)
				return true
			}
			return false
		}
	}
	other := "sha256:" + strings.Repeat("0", 64)
	tests := map[string]struct {
		fault  func(http.ResponseWriter, *http.Request) bool
		change func(*served, *image.Reference)
		arch   string
		err    []string // {} means the image
	}{
		"another digest": {nil, func(_ *served, r *image.Reference) { r.Digest = other }, "amd64",
			[]string{"pulling the image {}: the registry does not have the image: ", "; check name and digest"}},
		"another architecture": {nil, nil, "s390x", []string{"choosing from the image {}: the image has no linux/s390x, only amd64, arm64"}},
		"another platform without a list": {nil, func(s *served, r *image.Reference) {
			d, _ := s.arm.Digest()
			r.Digest = d.String()
		}, "amd64", []string{"choosing from the image {}: the image is for linux/arm64, but the machine is linux/amd64"}},
		"private":                {status(401, "/manifests/"), nil, "amd64", []string{"pulling the image {}: the registry refuses access: ", "; log in on the Packer host with docker login", "name a credential helper in ~/.docker/config.json", "image_archives"}},
		"another region's login": {status(400, "/manifests/"), nil, "amd64", []string{"pulling the image {}: the registry refuses access: "}},
		"forbidden blobs":        {status(403, "/blobs/"), nil, "amd64", []string{"pulling the image {}: the registry refuses access: "}},
		"forged blob":            {forged("/blobs/", "forged"), nil, "amd64", []string{"choosing from the image {}: "}},
		"forged manifest":        {forged("/manifests/", `{"schemaVersion":2}`), nil, "amd64", []string{"pulling the image {}: ", "does not match"}},
		"an unknown registry": {nil, func(_ *served, r *image.Reference) { r.Name = "registry.invalid/eks/pause:3.10" }, "amd64",
			[]string{"pulling the image {}: there is no such registry: ", "; check the name, or give an archive of the image in image_archives"}},
		"an unreachable registry": {nil, func(_ *served, r *image.Reference) { r.Name = "127.0.0.1:9/eks/pause:3.10" }, "amd64",
			[]string{"pulling the image {}: the Packer host cannot reach the registry: ", "connection refused", "image_archives"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t)
			r := s.reference(t)
			if test.change != nil {
				test.change(s, &r)
			}
			if test.fault != nil {
				s.fault = test.fault
			}
			_, err := pull(t, open(t), r, test.arch, as, io.Discard)
			require.Error(t, err)
			for _, part := range test.err {
				assert.ErrorContains(t, err, strings.ReplaceAll(part, "{}", r.String()))
			}
		})
	}
}

// only lets in requests with the registry's password, like ECR's registries.
func (s *served) only(password string) {
	s.fault = func(w http.ResponseWriter, r *http.Request) bool {
		if user, got, ok := r.BasicAuth(); ok && user == "AWS" && got == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="ecr"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
}

// configure writes the user's Docker configuration.
func configure(t *testing.T, format string, a ...any) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), fmt.Appendf(nil, format, a...), 0o600))
}
