package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

func image(t *testing.T) *host.Host {
	t.Helper()
	return hosttest.Mounted(t, t.TempDir())
}

func full() *Manifest {
	return &Manifest{
		Schema: Schema, Tool: "0.1.0", Distro: "debian", DistroVersion: "12", Arch: "amd64", KubernetesVersion: "1.34.4",
		Packages: []Package{{"containerd", "1.6.20"}, {"runc", "1.1.5"}},
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
	_, ok = m.Unit("x")
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
	m.Record(Asset{ID: "cni-plugins", Version: "1.9.1"})
	require.Len(t, m.Assets, 2)
	a, ok := m.Asset("kubelet")
	require.True(t, ok)
	assert.Equal(t, "1.35.0", a.Version)
	tpl, ok := m.Template("/var/lib/kubelet/kubeconfig")
	require.True(t, ok)
	assert.Equal(t, host.Attributes{Mode: 0o640, UID: 1, GID: 2}, tpl.Attributes())
	u, ok := m.Unit("containerd.service")
	require.True(t, ok)
	assert.True(t, u.Enabled)
}
