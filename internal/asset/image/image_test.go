package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/manifest"
)

// tarOf writes members, given as pairs of name and content, to a file.
func tarOf(t *testing.T, pairs ...string) string {
	t.Helper()
	return saved(t, string(packed(pairs...)))
}

// packed is a tar archive of members, given as pairs of name and content.
func packed(pairs ...string) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: pairs[i], Size: int64(len(pairs[i+1]))}); err != nil {
			panic(err) // a fault of the test
		}
		_, _ = io.WriteString(w, pairs[i+1]) // into memory
	}
	_ = w.Close() // into memory
	return out.Bytes()
}

func saved(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "images.tar")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// blob returns a blob's member name and content.
func blob(text string) (name, content string) {
	return "blobs/sha256/" + manifest.Sum([]byte(text)), text
}

func digestOf(text string) string { return "sha256:" + manifest.Sum([]byte(text)) }

const emptyIndex = `{"manifests":[]}`

func TestIncompleteArchivesAreRefused(t *testing.T) {
	const name = "registry.example/pause:3.10"
	config := `{"os":"linux","architecture":"amd64"}`
	whole := fmt.Sprintf(`{"config":{"digest":%q,"size":%d},"layers":[{"digest":%q,"size":5}]}`, digestOf(config), len(config), digestOf("layer"))
	configName, _ := blob(config)
	wholeName, _ := blob(whole)
	layerName, _ := blob("layer")
	list := `{"manifests":[{"digest":"sha256:../../../etc/passwd","platform":{"os":"linux","architecture":"amd64"}}]}`
	listName, _ := blob(list)
	bare, _ := blob("{}")
	tests := map[string]struct {
		file   string
		digest string
		err    string // {} means the image, {file} the archive
	}{
		"no archive":  {saved(t, strings.Repeat("x", 2000)), digestOf("{}"), "reading the archive of images {file}: the file is not a tar archive (unpack a compressed archive first): archive/tar: invalid tar header"},
		"no file":     {"/nowhere/images.tar", digestOf("{}"), "opening the archive of images: open /nowhere/images.tar: no such file or directory"},
		"empty":       {tarOf(t), digestOf("{}"), "reading the archive of images {file}: the archive has no index.json, so it is not an OCI archive; docker save (since version 25), skopeo and ctr write OCI archives"},
		"another":     {tarOf(t, "index.json", emptyIndex), digestOf("{}"), "the image {} is incomplete in {file}: " + digestOf("{}") + " is missing: file does not exist"},
		"forged":      {tarOf(t, "index.json", emptyIndex, bare, "{ }"), digestOf("{}"), "choosing from the image {}: verifying the blob " + digestOf("{}") + ": the content has the SHA-256 " + manifest.Sum([]byte("{ }"))},
		"no manifest": {tarOf(t, "index.json", emptyIndex, bare, "{}"), digestOf("{}"), "choosing from the image {}: " + digestOf("{}") + " is neither a manifest nor a list of them"},
		"a path for a digest": {tarOf(t, "index.json", emptyIndex, listName, list), digestOf(list),
			`choosing from the image {}: the digest "sha256:../../../etc/passwd" is not sha256: and 64 hexadecimal digits`},
		"a layer that is missing": {tarOf(t, "index.json", emptyIndex, configName, config, wholeName, whole), digestOf(whole), "the image {} is incomplete in {file}: " + digestOf("layer") + " is missing: file does not exist"},
		"a layer that is forged": {tarOf(t, "index.json", emptyIndex, configName, config, wholeName, whole, layerName, "LAYER"), digestOf(whole),
			"verifying the blob " + digestOf("layer") + ": the content has the SHA-256 " + manifest.Sum([]byte("LAYER"))},
		"a layer that is cut": {tarOf(t, "index.json", emptyIndex, configName, config, wholeName, whole, layerName, "lay"), digestOf(whole),
			"verifying the blob " + digestOf("layer") + ": the content has the SHA-256 " + manifest.Sum([]byte("lay"))},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			r := Reference{Name: name, Digest: test.digest}
			err := func() error {
				a, err := OpenArchive(test.file)
				if err != nil {
					return err
				}
				defer a.Close()
				i, err := Choose(t.Context(), a, r, "amd64")
				if err != nil {
					return err
				}
				return i.Write(t.Context(), a, r, name, io.Discard)
			}()
			require.EqualError(t, err, strings.NewReplacer("{}", r.String(), "{file}", test.file).Replace(test.err))
		})
	}
}

func TestReferencesNeedRegistryAndVersion(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	r, err := ParseReference("registry.k8s.io/pause:3.10@" + digest)
	require.NoError(t, err)
	assert.Equal(t, "3.10", r.Tag())
	assert.Equal(t, "registry.k8s.io/pause", r.Repository())
	assert.Equal(t, "registry.k8s.io/pause:3.10@"+digest, r.String())
	r, err = ParseReference("localhost:5000/a/b:1")
	require.NoError(t, err)
	assert.Equal(t, "localhost:5000/a/b:1", r.String())
	for text, want := range map[string]string{
		"pause:3.10":                       `"pause:3.10" names no registry; write the full name, such as docker.io/library/busybox:1.37`,
		"library/busybox:1":                `"library/busybox:1" names no registry; write the full name, such as docker.io/library/busybox:1.37`,
		"docker.io/busybox:1":              `"docker.io/busybox:1": write the full name, docker.io/library/busybox:1`,
		"registry.k8s.io/pause:latest":     `"registry.k8s.io/pause:latest": latest is no version; name a version, or add @sha256:DIGEST`,
		"registry.k8s.io/pause:1@sha256:1": `"registry.k8s.io/pause:1@sha256:1": the digest must be sha256: and 64 hexadecimal digits`,
	} {
		_, err := ParseReference(text)
		require.EqualError(t, err, want)
	}
	_, err = ParseReference("registry.k8s.io/pause")
	require.ErrorContains(t, err, `"registry.k8s.io/pause" must be REGISTRY/REPOSITORY:TAG@sha256:DIGEST: `)
}
