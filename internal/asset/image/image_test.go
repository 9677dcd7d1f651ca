package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// tarOf writes members, given as pairs of name and content, to a file.
func tarOf(t *testing.T, pairs ...string) string {
	t.Helper()
	return saved(t, string(testkit.Tar(0, pairs...)))
}

func saved(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "images.tar")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

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

// documents is a Source of blobs by digest.
type documents map[string]string

func (s documents) Open(_ context.Context, _ Reference, b Blob, _ bool, from int64) (io.ReadCloser, error) {
	text, there := s[b.Digest]
	if !there {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(text[from:])), nil
}

// put adds a document and returns its digest. In the text, names in capitals are
// replaced by the digests of earlier documents.
func (s documents) put(text string, names ...string) string {
	text = strings.NewReplacer(names...).Replace(text)
	digest := "sha256:" + manifest.Sum([]byte(text))
	s[digest] = text
	return digest
}

const amd64 = `{"os":"linux","architecture":"amd64"}`

func TestManifestsBeyondTheLimitsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		text string // CONFIG, LAYER and MANIFEST are digests
		err  string
	}{
		"a size below zero":       {`{"config":{"digest":"CONFIG","size":37},"layers":[{"digest":"LAYER","size":-1}]}`, "the size of LAYER is -1 bytes"},
		"a size beyond all disks": {`{"config":{"digest":"CONFIG","size":37},"layers":[{"digest":"LAYER","size":9223372036854775807}]}`, "the image has more than 137438953472 bytes"},
		"sizes that overflow": {`{"config":{"digest":"CONFIG","size":37},"layers":[{"digest":"LAYER","size":9223372036854775807},{"digest":"LAYER","size":9223372036854775807}]}`,
			"the image has more than 137438953472 bytes"},
		"more layers than the kernel mounts": {`{"config":{"digest":"CONFIG","size":37},"layers":[` + strings.Repeat(`{"digest":"LAYER","size":5},`, 500) + `{"digest":"LAYER","size":5}]}`,
			"the image has 501 layers, but a node can mount only 500"},
		"a list in a list":       {`{"manifests":[{"digest":"LIST","platform":` + amd64 + `}]}`, "LIST is a list of manifests in a list of manifests"},
		"a size that is no size": {`{"config":{"digest":"CONFIG","size":1e30}}`, "the manifest TOP cannot be read: line 1, column 105: the field config.size: expected a whole number, found a number"},
		"nothing but depth":      {strings.Repeat("[", 20000), "the manifest TOP cannot be read: line 1, column 10001: invalid character '[' exceeded max depth"},
		"an endless digest": {`{"config":{"digest":"CONFIG","size":37},"layers":[{"digest":"` + strings.Repeat("x", 1000) + `"}]}`,
			`the digest "` + strings.Repeat("x", 100) + `" is not sha256: and 64 hexadecimal digits`},
		"platforms with terminal escapes": {`{"manifests":[{"digest":"LIST","platform":{"os":"linux","architecture":"\u001b[2J` + strings.Repeat("y", 100) + `"}}]}`,
			`the image has no linux/amd64, only \x1b[2J` + strings.Repeat("y", 36)},
		"a configuration with terminal escapes": {`{"config":{"digest":"PAINTING","size":37}}`, `the image is for \x1b[2J/nothing, but the machine is linux/amd64`},
		"an endless document":                   {`{"config":{"digest":"CONFIG"},"x":"` + strings.Repeat("x", mostDocument) + `"}`, "TOP has more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := documents{}
			names := []string{"CONFIG", s.put(amd64), "LAYER", s.put("layer"), "PAINTING", s.put(`{"os":"\u001b[2J"}`), "LIST", s.put(`{"manifests":[{"digest":"sha256:1"}]}`)}
			r := Reference{Name: "registry.example/pause:3.10", Digest: s.put(test.text, names...)}
			_, err := Choose(t.Context(), s, r, "amd64")
			want := strings.NewReplacer(append(names, "TOP", r.Digest)...).Replace(test.err)
			require.EqualError(t, err, "choosing from the image "+r.String()+": "+want)
		})
	}
}

func TestAnEndlessIndexIsRefused(t *testing.T) {
	name := tarOf(t, "index.json", `{"manifests":[]`+strings.Repeat(" ", mostDocument)+"}")
	_, err := OpenArchive(name)
	require.EqualError(t, err, "reading the archive of images "+name+": index.json has more than 4194304 bytes")
}

// FuzzChoose selects from any documents of a registry. A selected image has bounded
// parts, and can be packed or returns an error.
func FuzzChoose(f *testing.F) {
	const plain = `{"config":{"digest":"CONFIG","size":37},"layers":[{"digest":"LAYER","size":5}]}`
	list := `{"manifests":[{"digest":"MANIFEST","platform":` + amd64 + `}]}`
	for _, top := range []string{
		plain, list, "{}", `{"manifests":[{"digest":"sha256:../../../etc/passwd","platform":` + amd64 + `}]}`, strings.Repeat("[", 10001),
		`{"config":{"digest":"CONFIG","size":-1},"layers":[{"digest":"LAYER","size":9223372036854775807}]}`,
	} {
		f.Add(top, plain, amd64)
		f.Add(list, top, amd64)
	}
	f.Fuzz(func(t *testing.T, top, inner, config string) {
		s := documents{}
		names := []string{"CONFIG", s.put(config), "LAYER", s.put("layer")}
		names = append(names, "MANIFEST", s.put(inner, names...))
		r := Reference{Name: "registry.example/pause:3.10", Digest: s.put(top, names...)}
		i, err := Choose(t.Context(), s, r, "amd64")
		if err != nil {
			require.Less(t, len(err.Error()), 4096)
			return
		}
		require.LessOrEqual(t, len(i.Blobs), mostLayers+1)
		for _, b := range i.Blobs {
			require.GreaterOrEqual(t, b.Size, int64(0))
		}
		var out bytes.Buffer
		if err := i.Write(t.Context(), s, r, r.Name, &out); err != nil {
			return
		}
		a, err := OpenArchive(saved(t, out.String()))
		require.NoError(t, err)
		defer a.Close()
		require.Equal(t, i.Digest, a.Resolve(r), "the packed archive must be readable")
	})
}

// FuzzOpenArchive reads any archive of images.
func FuzzOpenArchive(f *testing.F) {
	plain := fmt.Sprintf(`{"config":{"digest":%q,"size":%d}}`, digestOf(amd64), len(amd64))
	plainName, _ := blob(plain)
	configName, _ := blob(amd64)
	index := fmt.Sprintf(`{"manifests":[{"digest":%q,"annotations":{%q:"registry.example/pause:3.10"}}]}`, digestOf(plain), nameAnnotation)
	f.Add(testkit.Tar(0, "index.json", index, plainName, plain, configName, amd64))
	f.Add(testkit.Tar(0, "index.json", emptyIndex))
	f.Add(testkit.Tar(0, "index.json", index, "blobs/sha256/../../index.json", "{}"))
	f.Add([]byte("no archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := OpenArchive(saved(t, string(data)))
		if err != nil {
			return
		}
		defer a.Close()
		r := Reference{Name: "registry.example/pause:3.10"}
		r.Digest = a.Resolve(r)
		if i, err := Choose(t.Context(), a, r, "amd64"); err == nil {
			require.NotEmpty(t, i.Blobs)
			_ = i.Write(t.Context(), a, r, r.Name, io.Discard) // an error is fine, too
		}
	})
}
