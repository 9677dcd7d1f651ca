package base

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeyCoversTheWholeRecipe(t *testing.T) {
	key := func(change func(*recipe)) string {
		recipe := newRecipe("bookworm")
		change(&recipe)
		key, err := recipe.key()
		require.NoError(t, err)
		return key
	}
	same := key(func(*recipe) {})
	assert.Regexp(t, `^bookworm-[0-9a-f]{16}$`, same)
	assert.Equal(t, same, key(func(*recipe) {}))
	for name, change := range map[string]func(*recipe){
		"suite":    func(r *recipe) { *r = newRecipe("trixie") },
		"variant":  func(r *recipe) { r.Variant = "apt" },
		"packages": func(r *recipe) { r.Packages = append(r.Packages, "vim") },
		"excluded": func(r *recipe) { r.Excluded = nil },
		"purged":   func(r *recipe) { r.Purged = nil },
		"removed":  func(r *recipe) { r.Removed = r.Removed[1:] },
		"content":  func(r *recipe) { r.Files[len(r.Files)-1].Content += "\n" },
		"mode":     func(r *recipe) { r.Files[0].Mode = 0o600 },
		"links":    func(r *recipe) { r.Links["/x"] = "y" },
		"loader":   func(r *recipe) { r.Loader = append(r.Loader, "xfs") },
		"revision": func(r *recipe) { r.Revision++ },
	} {
		t.Run(name, func(t *testing.T) { assert.NotEqual(t, same, key(change)) })
	}
}

func TestSources(t *testing.T) {
	assert.Equal(t, `deb [check-valid-until=no check-date=no] http://mirror.eksnode.test/debian trixie main
deb [check-valid-until=no check-date=no] http://mirror.eksnode.test/debian trixie-updates main
deb [check-valid-until=no check-date=no] http://mirror.eksnode.test/debian-security trixie-security main
`, sources("trixie"))
}

func TestLayDown(t *testing.T) {
	root := t.TempDir()
	write := func(path, content string, mode fs.FileMode) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
	}
	write("etc/hostname", "builder\n", 0o644)
	write("etc/ssh/ssh_host_rsa_key", "secret", 0o600)
	write("etc/ssh/sshd_config", "kept", 0o644)
	write("etc/machine-id", "0123\n", 0o444)
	write("etc/netplan/90-default.yaml", "old", 0o644)
	recipe := newRecipe("bookworm")
	require.NoError(t, recipe.layDown(root))

	assert.NoFileExists(t, filepath.Join(root, "etc/hostname"))
	assert.NoFileExists(t, filepath.Join(root, "etc/ssh/ssh_host_rsa_key"))
	assert.FileExists(t, filepath.Join(root, "etc/ssh/sshd_config"))
	for _, file := range recipe.Files {
		path := filepath.Join(root, file.Path)
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, file.Content, string(content), file.Path)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, file.Mode, info.Mode(), file.Path)
	}
	target, err := os.Readlink(filepath.Join(root, "etc/resolv.conf"))
	require.NoError(t, err)
	assert.Equal(t, "../run/systemd/resolve/stub-resolv.conf", target)
}

func TestLoaderFindsTheRootByItsLabel(t *testing.T) {
	assert.Contains(t, grubConfig, "root=LABEL="+RootLabel+" ")
	assert.False(t, strings.Contains(grubConfig, " ro "), "with an empty fstab nothing remounts the root")
}
