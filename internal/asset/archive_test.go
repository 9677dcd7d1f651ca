package asset

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"io"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

const archived = "/cni.tgz"

func TestInstallUnpacksAnArchive(t *testing.T) {
	m := newMirror(t)
	plain := regular("./LICENSE")
	plain.Mode = 0o600
	setuid := regular("./bridge")
	setuid.Mode, setuid.Uid, setuid.Gid = 0o4755, 1001, 1001
	m.put(archived, tgz(t,
		&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o700},
		plain, setuid, regular("sub/deep/tool"),
		&tar.Header{Typeflag: tar.TypeDir, Name: "sub/", Mode: 0o700},
		&tar.Header{Typeflag: tar.TypeSymlink, Name: "sub/link", Linkname: "../bridge"},
	))
	h := newMachine(t, map[string]string{"opt/cni/bin/bridge": "an old one", "opt/cni/bin/aws-cni": "the VPC CNI's own"})
	record, err := Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
	require.NoError(t, err)
	assert.Equal(t, []manifest.File{
		file("/opt/cni/bin/LICENSE", 0o644, "content of ./LICENSE"),
		file("/opt/cni/bin/bridge", 0o755, "content of ./bridge"),
		file("/opt/cni/bin/sub/deep/tool", 0o755, "content of sub/deep/tool"),
		{Path: "/opt/cni/bin/sub/link", Mode: 0o777, Link: "../bridge"},
	}, record.Files)
	assert.Equal(t, sumOf(m.files[archived]), record.SHA256, "the recorded sum must be that of the archive")
	assert.Equal(t, []string{
		"/opt/", "/opt/cni/", "/opt/cni/bin/",
		"/opt/cni/bin/LICENSE -rw-r--r-- " + sumOf([]byte("content of ./LICENSE"))[:8],
		"/opt/cni/bin/aws-cni -rw-r--r-- " + sumOf([]byte("the VPC CNI's own"))[:8],
		"/opt/cni/bin/bridge -rwxr-xr-x " + sumOf([]byte("content of ./bridge"))[:8],
		"/opt/cni/bin/sub/", "/opt/cni/bin/sub/deep/",
		"/opt/cni/bin/sub/deep/tool -rwxr-xr-x " + sumOf([]byte("content of sub/deep/tool"))[:8],
		"/opt/cni/bin/sub/link -> ../bridge",
	}, h.tree(t))
	st, err := os.Stat(filepath.Join(h.root, "opt/cni/bin/bridge"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), st.Mode(), "owner and set-user-ID of the archive must be ignored")
	differs, err := record.Differs(h.Host)
	require.NoError(t, err)
	assert.Empty(t, differs)
}

func TestTheUmaskChangesNoMode(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	m := newMirror(t)
	m.put(archived, tgz(t, regular("sub/tool")))
	h := newMachine(t, map[string]string{"opt/cni/bin/bridge": "old"})
	_, err := Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
	require.NoError(t, err)
	for _, name := range []string{"opt/cni/bin/sub", "opt/cni/bin/sub/tool"} {
		st, err := os.Stat(filepath.Join(h.root, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o755), st.Mode().Perm(), name)
	}
}

// FuzzArchive unpacks any tar archive. No file may be created outside the target, or
// stay inside after an error.
func FuzzArchive(f *testing.F) {
	for _, members := range [][]*tar.Header{
		{regular("bridge"), {Typeflag: tar.TypeDir, Name: "sub/"}, link("sub/link", "../bridge")},
		{regular("../evil")}, {link("a", "."), regular("a/evil")}, {link("a/b", ".."), link("c", "a/b/../x")},
		{link("a/b", ".."), link("out", "a/b/../../etc")}, {link("out", "a/b/../../etc"), link("a/b", "..")}, {link("b", "a"), link("a", "b")},
		{regular("a"), regular("a")}, {regular(".eksnode-fuzz/x")}, {link(".eksnode-fuzz", ".")}, below(3, 20),
		{{Typeflag: tar.TypeLink, Name: "evil", Linkname: "/etc/shadow"}}, {{Typeflag: tar.TypeFifo, Name: "evil"}}, {{Typeflag: tar.TypeBlock, Name: "evil"}},
	} {
		f.Add(packed(members))
	}
	for _, data := range [][]byte{
		append(packed([]*tar.Header{regular("harmless")}), sparse("evil", math.MaxInt64)...), sparse("evil", 1<<20), extended("16 path=../evil\n"), zeros("evil", 1<<12),
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		root := t.TempDir()
		h := hosttest.Mounted(t, root)
		require.NoError(t, h.Files.MkdirAll("/opt/cni/bin", 0o755))
		sum := sumOf(testkit.Gzip(data))
		v := &verifier{download: Download{ID: "fuzz", Target: "/opt/cni/bin"}, hash: sha256.New(), want: sum, progress: quietly,
			body: content{ReadCloser: &stream{body: io.NopCloser(bytes.NewReader(testkit.Gzip(data))), timer: time.NewTimer(time.Hour), fetcher: hasty(), total: -1}}}
		files, err := installArchive(h, v.download, v)
		m := machine{h, root}
		inside := 0
		for _, entry := range m.tree(t) {
			name, _, _ := strings.Cut(entry, " ")
			if !slices.Contains([]string{"/opt/", "/opt/cni/", "/opt/cni/bin/"}, name) {
				require.True(t, strings.HasPrefix(name, "/opt/cni/bin/"), entry)
				inside++
			}
		}
		if err != nil {
			require.Zero(t, inside, "no file may stay after an error: %v", err)
			return
		}
		behind, err := os.OpenRoot(filepath.Join(root, "opt/cni/bin")) // Go's own check of links
		require.NoError(t, err)
		defer behind.Close()
		for _, file := range files {
			if _, err := behind.Stat(strings.TrimPrefix(file.Path, "/opt/cni/bin/")); err != nil {
				require.NotContains(t, err.Error(), "escapes", "%s -> %s", file.Path, file.Link)
			}
			differs, err := file.Differs(h)
			require.NoError(t, err)
			require.Empty(t, differs)
			if file.Link != "" {
				to := path.Join(path.Dir(file.Path), file.Link)
				require.True(t, to == "/opt/cni/bin" || strings.HasPrefix(to, "/opt/cni/bin/"), "%s -> %s", file.Path, file.Link)
			}
		}
	})
}

func file(path string, mode manifest.Mode, content string) manifest.File {
	return manifest.File{Path: path, Mode: mode, Size: int64(len(content)), SHA256: sumOf([]byte(content))}
}

func link(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

func TestHostileArchivesInstallNothing(t *testing.T) {
	many := make([]*tar.Header, mostMembers+1)
	for i := range many {
		many[i] = &tar.Header{Typeflag: tar.TypeDir, Name: "./"}
	}
	tests := map[string]struct {
		members []*tar.Header
		err     string
	}{
		"parent":                     {[]*tar.Header{regular("../evil")}, `the archive's member "../evil" would lie outside /opt/cni/bin`},
		"parent in the middle":       {[]*tar.Header{regular("a/../../evil")}, `the archive's member "a/../../evil" would lie outside /opt/cni/bin`},
		"parent that stays inside":   {[]*tar.Header{regular("a/../evil")}, `the archive's member "a/../evil" would lie outside /opt/cni/bin`},
		"absolute":                   {[]*tar.Header{regular("/etc/evil")}, `the archive's member "/etc/evil" would lie outside /opt/cni/bin`},
		"absolute folder":            {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "/etc/evil/"}}, `the archive's member "/etc/evil/" would lie outside /opt/cni/bin`},
		"link to an absolute path":   {[]*tar.Header{link("evil", "/etc")}, `the archive's link "evil" points to "/etc", outside /opt/cni/bin`},
		"link upwards":               {[]*tar.Header{link("evil", "..")}, `the archive's link "evil" points to "..", outside /opt/cni/bin`},
		"link upwards, further":      {[]*tar.Header{link("a/evil", "../../etc")}, `the archive's link "a/evil" points to "../../etc", outside /opt/cni/bin`},
		"link to nothing":            {[]*tar.Header{link("evil", "")}, `the archive's link "evil" points to "", outside /opt/cni/bin`},
		"file behind its link":       {[]*tar.Header{link("a", "b"), regular("a/evil")}, `the archive's member "a/evil" lies behind the archive's own link "a"`},
		"link through a link":        {[]*tar.Header{link("a/b", "."), link("c", "a/b/../../..")}, `the archive's link "c" points to "a/b/../../..", outside /opt/cni/bin`},
		"link through a link, ahead": {[]*tar.Header{link("a", "x/y"), link("b", "a/z")}, `the archive's link "b" points through the archive's own link "a"`},
		"link and file":              {[]*tar.Header{link("a", "b"), regular("a")}, `the archive has the member "a" twice`},
		"file twice":                 {[]*tar.Header{regular("a"), regular("./a")}, `the archive has the member "./a" twice`},
		"file as folder":             {[]*tar.Header{regular("a"), regular("a/b")}, `the archive's member "a/b" lies below a file`},
		"folder as file":             {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "a"}, regular("a")}, `the archive has the member "a" twice`},
		"hard link":                  {[]*tar.Header{{Typeflag: tar.TypeLink, Name: "evil", Linkname: "/etc/shadow"}}, `the archive's member "evil" is neither a file, a folder nor a symbolic link`},
		"device":                     {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "evil", Devmajor: 1, Devminor: 3}}, `the archive's member "evil" is neither a file, a folder nor a symbolic link`},
		"FIFO":                       {[]*tar.Header{{Typeflag: tar.TypeFifo, Name: "evil"}}, `the archive's member "evil" is neither a file, a folder nor a symbolic link`},
		"bomb":                       {[]*tar.Header{{Typeflag: tar.TypeReg, Name: "evil", Size: mostUnpacked + 1}}, "the archive unpacks to more than 2147483648 bytes"},
		"a name too long":            {[]*tar.Header{regular(strings.Repeat("x", 256))}, `the archive's member "` + strings.Repeat("x", 100) + `"… has a name of more than 255 bytes between slashes`},
		"a name for a terminal":      {[]*tar.Header{regular("\x1b[2Jevil")}, `the archive's member "\x1b[2Jevil" has a name that cannot be printed`},
		"a name that is no text":     {[]*tar.Header{regular("\xffevil")}, `the archive's member "\xffevil" has a name that cannot be printed`},
		"the staging folder":         {[]*tar.Header{regular(".eksnode-cni-plugins/evil")}, `the archive's member ".eksnode-cni-plugins/evil" has a name that eksnode itself uses`},
		"too many members":           {many, "the archive has more than 10000 members"},
		"cut in the middle":          {[]*tar.Header{{Typeflag: tar.TypeReg, Name: "evil", Size: 1 << 20}}, `the archive's member "evil": unexpected EOF`},
		// Links are checked together, in any order of the archive.
		"through a link and up": {[]*tar.Header{link("a/b", ".."), link("out", "a/b/../../etc")},
			`the archive's link "out" points through the archive's own link "a/b"`},
		"through a link that comes later": {[]*tar.Header{link("out", "a/b/../../etc"), link("a/b", "..")},
			`the archive's link "out" points through the archive's own link "a/b"`},
		"through two links": {[]*tar.Header{link("x/y/z", "../.."), link("a", "x/y"), link("out", "x/y/z/../../../etc")},
			`the archive's link "out" points through the archive's own link "x/y/z"`},
		"to a link": {[]*tar.Header{link("b", "a"), link("a", "bridge")},
			`the archive's link "b" points through the archive's own link "a"`},
		"to itself": {[]*tar.Header{link("a", "a")},
			`the archive's link "a" points through the archive's own link "a"`},
		"up behind a link of the machine": {[]*tar.Header{link("out", "machine/x/../../etc")},
			`the archive's link "out" points to "machine/x/../../etc", which goes up after it went down`},
		"up and down and up": {[]*tar.Header{link("a/out", "../machine/../etc")},
			`the archive's link "a/out" points to "../machine/../etc", which goes up after it went down`},
		"to a name that cannot be printed": {[]*tar.Header{link("out", "a\nb")},
			`the archive's link "out" points to "a\nb", which cannot be printed`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(archived, tgz(t, append([]*tar.Header{regular("harmless")}, test.members...)...))
			h := newMachine(t, map[string]string{"opt/cni/bin/bridge": "the old one", "etc/passwd": "root"})
			require.NoError(t, os.Symlink("/var/lib", filepath.Join(h.root, "opt/cni/bin/machine")))
			err := h.refuses(t.Context(), t, hasty(), m.archive(archived))
			require.EqualError(t, err, "unpacking cni-plugins 1.10.0: "+test.err+"; nothing was installed")
		})
	}
}

func TestFilesThatAreNoArchivesInstallNothing(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		err  string
	}{
		"HTML":              {[]byte("<html>"), "unpacking cni-plugins 1.10.0: the archive is not gzip: "},
		"not a tar archive": {testkit.Gzip(noise(2000)), "unpacking cni-plugins 1.10.0: the content is not a tar archive: "},
		"empty":             {nil, "unpacking cni-plugins 1.10.0: the archive is not gzip: EOF"},
		"cut gzip":          {tgz(t, regular("a"))[:30], "unpacking cni-plugins 1.10.0: the content is not a tar archive: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(archived, test.data)
			h := newMachine(t, map[string]string{"opt/cni/bin/bridge": "the old one"})
			require.ErrorContains(t, h.refuses(t.Context(), t, hasty(), m.archive(archived)), test.err)
		})
	}
}

func TestAForgedArchiveFailsByItsSum(t *testing.T) {
	m := newMirror(t)
	m.put(archived, tgz(t, regular("bridge")))
	m.files[archived] = tgz(t, regular("../evil"))
	h := newMachine(t, map[string]string{"opt/cni/bin/bridge": "the old one"})
	require.ErrorContains(t, h.refuses(t.Context(), t, hasty(), m.archive(archived)), "verifying cni-plugins 1.10.0: ")
}

func TestATruncatedArchiveDownloadResumes(t *testing.T) {
	m := newMirror(t)
	m.put(archived, tgz(t, regular("bridge"), regular("loopback")))
	m.faults[archived] = m.times(1, m.cutAfter(60))
	h := newMachine(t, nil)
	_, err := Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
	require.NoError(t, err)

	m.faults[archived] = m.cutAfter(10)
	_, err = Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
	require.ErrorContains(t, err, "fetching "+m.URL+archived+": the download was cut off after 40 of ")
}

func TestLeftoverFilesAreFoundAndRemoved(t *testing.T) {
	h := newMachine(t, map[string]string{
		"opt/cni/bin/.eksnode-cni-plugins/bridge":    "half",
		"opt/cni/bin/.eksnode-cni-plugins-2/bridge":  "somebody's",
		"opt/cni/bin/bridge":                         "old",
		"usr/bin/.kubelet.eksnode-0123456789abcdef":  "half",
		"usr/bin/.kubelets.eksnode-0123456789abcdef": "somebody's",
	})
	m := newMirror(t)
	m.put(archived, tgz(t, regular("bridge")))
	left, err := m.archive(archived).Leftover(h.Host)
	require.NoError(t, err)
	assert.Equal(t, []string{"/opt/cni/bin/.eksnode-cni-plugins"}, left)
	left, err = m.program(where).Leftover(h.Host)
	require.NoError(t, err)
	assert.Equal(t, []string{"/usr/bin/.kubelet.eksnode-0123456789abcdef"}, left)

	_, err = Install(t.Context(), h.Host, hasty(), m.archive(archived), quietly)
	require.NoError(t, err, "leftover files must not prevent the installation")
	left, err = m.archive(archived).Leftover(h.Host)
	require.NoError(t, err)
	assert.Empty(t, left)

	left, err = m.archive(archived).Leftover(newMachine(t, nil).Host)
	require.NoError(t, err)
	assert.Empty(t, left)
}
