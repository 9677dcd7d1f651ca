package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// one is a release whose licence is a file of the test's own.
func one(t *testing.T) *release {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "LICENSE"), []byte("the licence"), 0o644))
	return &release{root: root, version: "1.2.3", made: time.Unix(1_700_000_000, 0).UTC()}
}

func TestNamesAreThoseThatPackerLooksFor(t *testing.T) {
	r := one(t)
	linux, windows := target{"linux", "arm64"}, target{"windows", "amd64"}
	assert.Equal(t, "packer-plugin-eksnode_v1.2.3_x5.0_linux_arm64", r.pluginProgram(linux))
	assert.Equal(t, "packer-plugin-eksnode_v1.2.3_x5.0_linux_arm64.zip", r.pluginArchive(linux))
	assert.Equal(t, "packer-plugin-eksnode_v1.2.3_x5.0_windows_amd64.exe", r.pluginProgram(windows))
	assert.Equal(t, "packer-plugin-eksnode_v1.2.3_x5.0_windows_amd64.zip", r.pluginArchive(windows))
	assert.Equal(t, "packer-plugin-eksnode_v1.2.3_SHA256SUMS", r.sumsName(pluginName))
	assert.Equal(t, "eksnode_v1.2.3_linux_amd64.tar.gz", r.commandArchive("amd64"))
}

func TestTheCheckBuildsThisMachinesOwnAndNoTargetTwice(t *testing.T) {
	assert.Equal(t, own(), checkTargets()[0])
	for _, list := range [][]target{targets(), checkTargets()} {
		seen := map[target]bool{}
		for _, one := range list {
			assert.False(t, seen[one], one)
			seen[one] = true
		}
	}
	for _, one := range checkTargets() {
		assert.Contains(t, targets(), one, "what is checked is released")
	}
}

func TestASectionOfTheChangelogBecomesTheNotes(t *testing.T) {
	const changelog = `# Changelog

## [Unreleased]

- Something new.

## [1.2.3] - 2026-01-02

### Added
- A thing.

## [1.2.2] - 2025-12-01
- Nothing.

## [1.2.1]

[1.2.3]: https://example.com
`
	for version, c := range map[string]struct{ want, err string }{
		"1.2.3": {want: "### Added\n- A thing.\n"},
		"1.2.2": {want: "- Nothing.\n"},
		"1.2.1": {err: "reading the changelog: the section [1.2.1] is empty"},
		"1.2.0": {err: "reading the changelog: it has no section [1.2.0]; give what is unreleased this version's name"},
	} {
		t.Run(version, func(t *testing.T) {
			got, err := section(changelog, version)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestOnlyACleanTreeWithItsVersionsTagIsReleased(t *testing.T) {
	ctx := t.Context()
	r := one(t)
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"},
	} {
		_, err := output(ctx, r.root, "git", args...)
		require.NoError(t, err)
	}
	require.EqualError(t, r.ready(ctx, "v1.2.4"), "releasing v1.2.4: internal/version/version.go says 1.2.3; tag the commit that has the version")
	require.ErrorContains(t, r.ready(ctx, "v1.2.3"), "reading the changelog: ")

	changelog := filepath.Join(r.root, "CHANGELOG.md")
	require.NoError(t, os.WriteFile(changelog, []byte("# Changelog\n\n## [1.2.3]\n- All.\n"), 0o644))
	require.EqualError(t, r.ready(ctx, ""), "releasing 1.2.3: there are changes that are not committed:\n?? CHANGELOG.md")
}

func TestAFolderWithSomethingInItIsNotBuiltInto(t *testing.T) {
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "x"), nil, 0o644))
	_, err := emptyFolder(full)
	require.EqualError(t, err, "building into "+full+": it is not empty; remove what is in it or name another folder with -out")

	fresh := filepath.Join(full, "a", "b")
	got, err := emptyFolder(fresh)
	require.NoError(t, err)
	assert.Equal(t, fresh, got)
	assert.DirExists(t, fresh)
}
