package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func TestFileDiffersComparesContentModeAndLink(t *testing.T) {
	recorded := File{Path: "/bin/tool", Mode: 0o755, Size: 3, SHA256: Sum([]byte("abc"))}
	link := File{Path: "/bin/link", Mode: 0o777, Link: "tool"}
	tests := map[string]struct {
		file File
		lay  func(h *host.Host) error
		why  string
	}{
		"the same":        {recorded, write("/bin/tool", "abc", 0o755), ""},
		"missing":         {recorded, write("/bin/other", "abc", 0o755), "/bin/tool is missing"},
		"no folder":       {recorded, func(*host.Host) error { return nil }, "/bin/tool is missing"},
		"other content":   {recorded, write("/bin/tool", "abd", 0o755), "/bin/tool is not what was installed"},
		"other size":      {recorded, write("/bin/tool", "abcd", 0o755), "/bin/tool is not what was installed"},
		"other mode":      {recorded, write("/bin/tool", "abc", 0o700), "/bin/tool is not what was installed"},
		"a folder":        {recorded, func(h *host.Host) error { return h.Files.MkdirAll("/bin/tool", 0o755) }, "/bin/tool is not what was installed"},
		"behind a link":   {recorded, linked("/bin/tool", "/opt/tool", write("/opt/tool", "abc", 0o755)), ""},
		"a link":          {link, linked("/bin/link", "tool", write("/bin/tool", "abc", 0o755)), ""},
		"a dangling link": {link, linked("/bin/link", "tool", write("/bin/x", "", 0o755)), ""},
		"another link":    {link, linked("/bin/link", "tools", write("/bin/tool", "abc", 0o755)), "/bin/link is not the link that was installed"},
		"no link":         {link, write("/bin/link", "abc", 0o755), "/bin/link is not the link that was installed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := image(t)
			require.NoError(t, test.lay(h))
			why, err := test.file.Differs(h)
			require.NoError(t, err)
			assert.Equal(t, test.why, why)
			why, err = Asset{Files: []File{test.file}}.Differs(h)
			require.NoError(t, err)
			assert.Equal(t, test.why, why)
		})
	}
}

func write(name, content string, mode Mode) func(*host.Host) error {
	return func(h *host.Host) error {
		return h.Files.WriteFile(name, []byte(content), host.Attributes{Mode: Template{Mode: mode}.Attributes().Mode})
	}
}

func linked(name, to string, also func(*host.Host) error) func(*host.Host) error {
	return func(h *host.Host) error {
		if err := also(h); err != nil {
			return err
		}
		if err := h.Files.MkdirAll("/bin", 0o755); err != nil {
			return err
		}
		return h.Files.SymlinkIfPossible(to, name)
	}
}

func image(t *testing.T) *host.Host {
	t.Helper()
	return hosttest.Mounted(t, t.TempDir())
}

func full() *Manifest {
	return &Manifest{
		Schema: Schema, Tool: "0.1.0", Distro: "debian", DistroVersion: "12", Arch: "amd64", KubernetesVersion: "1.34.4",
		Packages: []Package{{Name: "containerd", Version: "1.6.20"}, {Name: "runc", Version: "1.1.5"}},
		Assets: []Asset{{ID: "kubelet", Version: "1.34.4", URL: "https://dl.k8s.io/x", Size: 3, SHA256: Sum([]byte("abc")),
			Files: []File{{Path: "/usr/bin/kubelet", Mode: 0o755, Size: 3, SHA256: Sum([]byte("abc"))}}}},
		Templates: []Template{{Path: "/var/lib/kubelet/kubeconfig", Mode: 0o640, UID: 1, GID: 2, SHA256: Sum([]byte("a <b> & c\n")), Content: "a <b> & c\n"}},
		Files:     []File{{Path: "/opt/link", Mode: 0o777, Link: "elsewhere"}},
		Units:     []Unit{{"containerd.service", true}, {"kubelet.service", false}},
	}
}

func TestSavedManifestsLoadUnchanged(t *testing.T) {
	h := image(t)
	require.NoError(t, full().Save(h))
	m, err := Load(h)
	require.NoError(t, err)
	assert.Equal(t, full(), m)

	text, err := h.Content(Path)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"mode": "0640"`)
	assert.Contains(t, string(text), `a <b> & c\n`, "templates must be readable text")
	assert.True(t, strings.HasSuffix(string(text), "}\n"))
}

func TestSavingAnUnchangedManifestKeepsTheFile(t *testing.T) {
	h := image(t)
	require.NoError(t, full().Save(h))
	before, err := os.Stat(filepath.Join(h.Root(), Path))
	require.NoError(t, err)
	shuffled := full()
	shuffled.Packages[0], shuffled.Packages[1] = shuffled.Packages[1], shuffled.Packages[0]
	shuffled.Units[0], shuffled.Units[1] = shuffled.Units[1], shuffled.Units[0]
	require.NoError(t, shuffled.Save(h))
	after, err := os.Stat(filepath.Join(h.Root(), Path))
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after), "the order of packages and units must not matter")
	assert.Equal(t, "runc", shuffled.Packages[0].Name, "Save must not change the manifest")
}

func TestAMissingManifestIsNil(t *testing.T) {
	m, err := Load(image(t))
	require.NoError(t, err)
	assert.Nil(t, m)
	_, ok := m.Asset("kubelet")
	assert.False(t, ok)
	_, ok = m.Template("/x")
	assert.False(t, ok)
}

func TestLoadRefusesInvalidManifests(t *testing.T) {
	const remedy = "; remove the file and provision again"
	for name, test := range map[string]struct{ text, err string }{
		"nothing":            {"", "the text is empty"},
		"another schema":     {`{"schema":"eksnode.image/v9"}`, `the schema is "eksnode.image/v9", not "eksnode.image/v1"`},
		"a forged content":   {`{"schema":"eksnode.image/v1","templates":[{"path":"/x","mode":"0644","sha256":"00","content":"a"}]}`, "the template of /x does not have the SHA-256 that is recorded for it"},
		"a set-user-ID mode": {`{"schema":"eksnode.image/v1","templates":[{"path":"/x","mode":"4755"}]}`, `reading the mode "4755": a mode must be octal and at most 0777`},
		"no mode":            {`{"schema":"eksnode.image/v1","templates":[{"path":"/x","mode":"rw"}]}`, `reading the mode "rw": a mode must be octal and at most 0777`},
	} {
		t.Run(name, func(t *testing.T) {
			h := image(t)
			require.NoError(t, h.Files.WriteFile(Path, []byte(test.text), host.Attributes{Mode: 0o644}))
			_, err := Load(h)
			require.EqualError(t, err, "reading the image's manifest /etc/eks/eksnode/manifest.json: "+test.err+remedy)
		})
	}
}

func TestRecordReplacesAnAsset(t *testing.T) {
	m := full()
	m.Record(Asset{ID: "kubelet", Version: "1.35.0"})
	m.Record(Asset{ID: "cni-plugins", Version: "1.10.0"})
	require.Len(t, m.Assets, 2)
	a, ok := m.Asset("kubelet")
	require.True(t, ok)
	assert.Equal(t, "1.35.0", a.Version)
	tpl, ok := m.Template("/var/lib/kubelet/kubeconfig")
	require.True(t, ok)
	assert.Equal(t, host.Attributes{Mode: 0o640, UID: 1, GID: 2}, tpl.Attributes())
}

// described returns a manifest with one package, one asset and one image.
func described() *Manifest {
	return &Manifest{
		Tool: "0.2.0", Distro: "debian", DistroVersion: "12", Arch: "amd64", KubernetesVersion: "1.34.4", PackageManager: "apt",
		Packages: []Package{{Name: "containerd", Version: "1.6.20~ds1-1+deb12u1"}},
		Assets:   []Asset{{ID: "kubelet", Version: "1.34.4", URL: "https://dl.k8s.io/kubelet", Size: 7, SHA256: strings.Repeat("a", 64)}},
		Images:   []Image{{Name: "registry.k8s.io/pause:3.10", Digest: "sha256:" + strings.Repeat("b", 64)}},
	}
}

func TestSBOMIsCycloneDX(t *testing.T) {
	text, err := described().SBOM()
	require.NoError(t, err)
	fixed := strings.Replace(string(text), serialOf(t, string(text)), "{serial}", 1)
	assert.Equal(t, testkit.Content(t, "testdata/sbom.cdx.json"), fixed)
	again, err := described().SBOM()
	require.NoError(t, err)
	assert.Equal(t, string(text), string(again))
	changed := described()
	changed.Packages = []Package{{Name: "bash", Version: "5.2"}, {Name: "apt", Version: "2.6"}}
	more, err := changed.SBOM()
	require.NoError(t, err)
	assert.Less(t, strings.Index(string(more), "library/apt"), strings.Index(string(more), "library/bash"))
	assert.NotEqual(t, serialOf(t, string(text)), serialOf(t, string(more)))
}

func serialOf(t *testing.T, text string) string {
	t.Helper()
	_, rest, _ := strings.Cut(text, `"serialNumber": "`)
	serial, _, _ := strings.Cut(rest, `"`)
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, serial)
	return serial
}

// rpm's epoch is a qualifier (https://github.com/package-url/purl-spec), and each version
// of a kernel is a component.
func TestVersionsOfRPMAreComponents(t *testing.T) {
	m := &Manifest{Distro: "fedora", PackageManager: "dnf", Packages: []Package{
		{Name: "bash", Version: "1:5.2-1", Source: "bash-5.2-1.src.rpm"}, {Name: "kernel",
			Version: "6.1-1"}, {Name: "kernel", Version: "6.2-1"},
	}}
	all := m.Components()
	require.Len(t, all, 3)
	assert.Equal(t, "pkg:rpm/fedora/bash@5.2-1?epoch=1&upstream=bash-5.2-1.src.rpm", all[0].PackageURL)
	assert.Equal(t, []string{"library/kernel", "library/kernel@6.2-1#2"}, []string{all[1].BOMRef, all[2].BOMRef})
}

// containerd's CRI plugin lists an image by its tag, its digest and its ID.
func TestAnImageIsOneComponent(t *testing.T) {
	m := described()
	digest := m.Images[0].Digest
	const byDigest = "registry.k8s.io/etcd@"
	for _, name := range []string{
		"registry.k8s.io/pause@" + digest, "sha256:" + strings.Repeat("c", 64), byDigest + digest,
	} {
		m.Images = append(m.Images, Image{Name: name, Digest: digest})
	}
	all := m.Components()
	require.Len(t, all, 4)
	assert.Equal(t, "registry.k8s.io/etcd", all[2].Name)
	assert.Empty(t, all[2].Version)
	assert.Equal(t, "pkg:oci/etcd@"+escape(digest)+"?repository_url=registry.k8s.io%2Fetcd", all[2].PackageURL)
	assert.Equal(t, "3.10", all[3].Version)
}

func TestPackagesWithoutAPackageManagerHaveNoPURL(t *testing.T) {
	m := described()
	m.PackageManager = "none"
	assert.Empty(t, m.packageURL(m.Packages[0]))
	repository, tag := splitImage("localhost:5000/pause")
	assert.Equal(t, []string{"localhost:5000/pause", ""}, []string{repository, tag})
}
