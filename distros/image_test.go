package distros

import (
	"bytes"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// Each name of testdata/published.yaml is found by its own pattern, and by no other.
func TestPatternsMatchThePublishersNames(t *testing.T) {
	type key struct{ ID, Version, Arch string }
	var published map[string]key
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/published.yaml")), &published))
	for name, want := range published {
		found := []key{}
		for _, d := range All() {
			for version, images := range patterns(t, d) {
				for arch, pattern := range images {
					if matchesFilter(t, pattern, name) {
						found = append(found, key{d.ID, version, arch})
					}
				}
			}
		}
		if want.ID == "" {
			assert.Empty(t, found, name)
			continue
		}
		if d, err := ByID(want.ID); assert.NoError(t, err) && len(d.Versions) > 0 {
			assert.Contains(t, d.Versions, want.Version, name)
		}
		assert.Equal(t, []key{want}, found, name)
	}
}

// patterns are the patterns of the names, by version and architecture.
func patterns(t *testing.T, d Distro) map[string]map[string]string {
	t.Helper()
	versions := d.Versions
	if len(versions) == 0 {
		versions = []string{""}
	}
	all := map[string]map[string]string{}
	for _, version := range versions {
		all[version] = map[string]string{}
		for _, arch := range []string{"amd64", "arm64"} {
			if b, err := d.BaseImage(version, arch, ""); err == nil {
				all[version][arch] = b.Name
			}
		}
	}
	return all
}

// matchesFilter matches a name as EC2's filters do: * is any text, ? any character.
func matchesFilter(t *testing.T, pattern, name string) bool {
	t.Helper()
	plain := strings.NewReplacer("/", "|", "[", `\[`) // a * of path.Match ends at a slash
	matched, err := path.Match(plain.Replace(pattern), strings.ReplaceAll(name, "/", "|"))
	require.NoError(t, err)
	return matched
}

func TestCloudImagesByName(t *testing.T) {
	for name, want := range map[string]string{
		"debian":          "/trixie/latest/debian-13-generic-arm64.qcow2",
		"debian-12":       "/bookworm/latest/debian-12-generic-arm64.qcow2",
		"debian-13-cloud": "/trixie/latest/debian-13-genericcloud-arm64.qcow2",
		"arch":            "the publisher has no cloud image arch for the architecture arm64",
		"debian-14":       `"debian-14" is neither a file, nor an address, nor the name of a cloud image; known are `,
	} {
		image, err := CloudImageByName(name, "arm64")
		if err != nil {
			assert.ErrorContains(t, err, want)
			continue
		}
		assert.Equal(t, "https://cloud.debian.org/images/cloud"+want, image.URL)
	}
}

// Each key has its fingerprint as a comment, and signs images.
func TestKeysOfCloudImages(t *testing.T) {
	files, err := keys.ReadDir("keys")
	require.NoError(t, err)
	unused := map[string]bool{}
	for _, file := range files {
		text, err := keys.ReadFile("keys/" + file.Name())
		require.NoError(t, err)
		_, comment, _ := strings.Cut(string(text), "\nComment: ")
		fingerprint, _, _ := strings.Cut(comment, ", from ")
		cmd := exec.Command("gpg", "--homedir", t.TempDir(), "--show-keys", "--with-colons")
		cmd.Stdin = bytes.NewReader(text)
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), "fpr:::::::::"+fingerprint+":", file.Name())
		unused[string(text)] = true
	}
	for _, name := range CloudImages() {
		image, err := CloudImageByName(name, "amd64")
		require.NoError(t, err)
		delete(unused, image.Key)
		signed := image.Signature != "" || image.ImageSignature != "" || strings.HasPrefix(name, "fedora")
		assert.Equal(t, image.Key != "", signed, name)
		assert.NotContains(t, image.Signature+image.ImageSignature, "{")
	}
	assert.Empty(t, unused)
}
