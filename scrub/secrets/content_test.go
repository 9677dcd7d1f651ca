//go:build linux

package secrets

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// Keys in files that are no text are found by their form, whatever the names.
func TestKeyFilesAreFound(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	eight, err := x509.MarshalPKCS8PrivateKey(curve)
	require.NoError(t, err)
	ec, err := x509.MarshalECPrivateKey(curve)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(curve.Public())
	require.NoError(t, err)
	store := func(tag byte) string { // version 2, one entry "a"
		return "\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00" + string(tag) + "\x00\x01a" + strings.Repeat("\x00", 64)
	}
	bag := func(kind byte) string {
		return "\x30\x82\x01\x00\x02\x01\x03\x30\x20" + string(pkcs12Data) + string(pkcs12KeyBag) + string(kind) + strings.Repeat("\x00", 64)
	}
	cases := []struct{ name, content, kind string }{
		{"srv/a", string(x509.MarshalPKCS1PrivateKey(key)), "a private key in DER"},
		{"srv/b.dat", string(eight), "a private key in DER"},
		{"srv/c", string(ec), "a private key in DER"},
		{"srv/cert.der", string(public), ""},
		{"srv/keys", store(1), "a Java key store with a private key"},
		{"srv/cacerts", store(2), ""},
		{"srv/chain", bag(2), "a PKCS #12 key store"},
		{"srv/trust", bag(3), ""},
		{"srv/ssh", "openssh-key-v1\x00\x00", "a private key of OpenSSH"},
		{"srv/krb", "\x05\x02\x00\x00\x00\x30\x00\x01\x00\x04CORP\x00\x04host" + strings.Repeat("\x00", 40), "a Kerberos keytab"},
		{"srv/ring", "\x95\x01\x00\x04\x60\x00\x00\x00\x01" + strings.Repeat("k", 40), "a private key of OpenPGP"},
		{"srv/passwords.kdbx", "\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5" + strings.Repeat("\x00", 40), "a KeePass database"},
		{"root/private-keys-v1.d/0.key", "(21:protected-private-key(3:rsa", "a private key of GnuPG"},
		{"srv/db_password", "hunter2\n", "a secret by its name, with one value"},
		{"srv/app_token", "0123abcd9876efgh5\n", "a secret by its name, with one value"},
		{"srv/in-text", "key: " + base64.StdEncoding.EncodeToString(eight) + "\n", ""},
	}
	files := map[string]string{}
	want := []string{"/srv/in-text: in the base64 text of line 1, the file is a private key in DER"}
	for _, c := range cases {
		if files[c.name] = c.content; c.kind != "" {
			want = append(want, "/"+c.name+": the file is "+c.kind)
		}
	}
	h := hosttest.Root(t, files)
	assert.ElementsMatch(t, want, audit(t, h))
}

// A bomb expands to a limit, nested archives to a depth, and the rest is named.
// Damaged archives are no errors.
func TestArchivesAreExpandedToALimit(t *testing.T) {
	root := hosttest.Root(t, map[string]string{
		"srv/cut.gz": "\x1f\x8b\x08\x00", "srv/no.zip": "PK\x03\x04no", "srv/no.xz": "\xfd7zXZ\x00no", "srv/no.zst": "\x28\xb5\x2f\xfdno", "srv/no.bz2": "BZh9no",
	}).Root()
	out, err := os.Create(filepath.Join(root, "srv/bomb.gz"))
	require.NoError(t, err)
	bomb := gzip.NewWriter(out)
	zeros := make([]byte, 1<<20)
	for range expandMost>>20 + 16 {
		_, err := bomb.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, bomb.Close())
	require.NoError(t, out.Close())
	deep := []byte("AK" + "IA" + strings.ToUpper(fill(16)) + strings.Repeat(" and more text", 500))
	for level := range 2 * deepest {
		deep = testkit.Gzip(deep)
		require.NoError(t, os.WriteFile(filepath.Join(root, "srv", fmt.Sprint("deep", level+1)), deep, 0o600))
	}
	got := audit(t, hosttest.Mounted(t, root))
	assert.Contains(t, got, "/srv/bomb.gz: only the first 256 MiB of the expanded content were searched: check the rest of the file")
	assert.Contains(t, got, "/srv/deep1: in the expanded content, line 1 contains an AWS access key")
	assert.Contains(t, got, fmt.Sprintf("/srv/deep%d: %sthe content is packed more than %d times and was not searched: unpack and check it",
		deepest+1, strings.Repeat("in the expanded content, ", deepest), deepest))
	assert.Len(t, got, 2*deepest+1, "%s", got)
}

// Holes of sparse files take no time. Special files are not opened.
func TestSparseAndSpecialFilesAreSearched(t *testing.T) {
	root := hosttest.Root(t, map[string]string{"srv/": ""}).Root()
	sparse, err := os.Create(filepath.Join(root, "srv/disk"))
	require.NoError(t, err)
	_, err = sparse.WriteAt([]byte("\nAK"+"IA"+strings.ToUpper(fill(16))+"\n"), 1<<40)
	require.NoError(t, err)
	require.NoError(t, sparse.Truncate(1<<41))
	require.NoError(t, sparse.Close())
	require.NoError(t, unix.Mkfifo(filepath.Join(root, "srv/fifo"), 0o600))
	require.NoError(t, unix.Mknod(filepath.Join(root, "srv/zero"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	got := audit(t, hosttest.Mounted(t, root))
	require.Len(t, got, 1)
	assert.Contains(t, got[0], "/srv/disk: ")
	assert.Contains(t, got[0], "contains an AWS access key")
}

// Values in a database stand side by side, without ends of words between.
func TestDatabasesAreSearched(t *testing.T) {
	page := "SQLite format 3\x00" + strings.Repeat("\x00", 100) + "gitlabgl" + "pat-" + fill(20) + "name\x00"
	h := hosttest.Root(t, map[string]string{"var/lib/app/app.db": page, "var/lib/app/other": "\x00" + page[1:]})
	assert.Equal(t, []string{"/var/lib/app/app.db: byte 122 contains a GitLab token"}, audit(t, h))
}

// A search ends when the context does.
func TestSearchesEndWithTheContext(t *testing.T) {
	h := hosttest.Root(t, map[string]string{"srv/a": "x"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Search{Words: NewIndex(All()), Keys: true}.In(ctx, h, "/")
	require.ErrorIs(t, err, context.Canceled)
	c := content{ctx: ctx, words: NewIndex(All()), found: func(string) {}}
	require.ErrorIs(t, c.search(part{name: "/x", in: strings.NewReader("x")}), context.Canceled)
}

// Zeros, the first bytes of a program, and words of eksnode hide nothing in a
// text. Programs have no settings.
func TestZerosAndMagicsHideNothing(t *testing.T) {
	key, setting := "-----BEGIN "+"RSA PRIVATE KEY-----\n"+fill(64)+"\n", "DB_PASSWORD="+fill(12)
	log := strings.Repeat("a line of a log\n", 100) + setting + "\n"
	mark := "MZ eksnode's patterns of secrets follow\n"
	noise := strings.Repeat("\x00\x01\x02\xff", 100)
	h := hosttest.Root(t, map[string]string{
		"srv/environ": "PATH=/bin\x00" + setting + "\x00HOME=/root\x00", "srv/one": "\x00\n" + setting,
		"srv/truncated.txt": strings.Repeat("\x00", 3*headSize+17) + log, "srv/base64": "\x00\n" + base64.StdEncoding.EncodeToString([]byte(setting+" and more\n")),
		"srv/marked": mark + "\x00" + key + setting, "usr/lib/marked": mark + key, "usr/lib/elf": "\x7fELF" + key, "srv/noise": noise + setting + noise,
	})
	assert.ElementsMatch(t, []string{
		"/srv/environ: byte 13 contains a password", "/srv/one: byte 5 contains a password",
		fmt.Sprintf("/srv/truncated.txt: byte %d contains a password", 3*headSize+17+1603),
		"/srv/base64: in the base64 text of line 2, line 1 contains a secret of an environment",
		"/srv/marked: byte 56 contains a private key", fmt.Sprintf("/srv/marked: byte %d contains a password", len(mark)+1+len(key)+3),
		"/usr/lib/marked: line 2 contains a private key", "/usr/lib/elf: line 1 contains a private key",
	}, audit(t, h))
}

// Neither the first bytes of a container nor the end of one hide what follows.
func TestContainersHideNothing(t *testing.T) {
	key, setting := "-----BEGIN "+"RSA PRIVATE KEY-----\n"+fill(64)+"\n", "DB_PASSWORD="+fill(12)+"\n"
	packed := func(text string) string { return string(testkit.Gzip(text)) }
	archive := func(name, text string) string { return string(testkit.Tar(0o600, name, text)) }
	zipped := func(flags, method uint16) string {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		in, err := w.CreateRaw(&zip.FileHeader{Name: "a", Flags: flags, Method: method, CompressedSize64: 4, UncompressedSize64: 4})
		require.NoError(t, err)
		_, err = in.Write([]byte("text"))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.String()
	}
	const line = ": line 2 contains a password"
	files := map[string]string{}
	var want []string
	for name, c := range map[string][2]string{
		"zip": {"PK\x03\x04\n" + setting, line}, "gzip": {"\x1f\x8b\x08\n" + setting, line}, "bzip2": {"BZh9\n" + setting, line},
		"zstd": {"\x28\xb5\x2f\xfd\n" + setting, line}, "tar": {strings.Repeat("x", 257) + "ustar\n" + setting, line},
		"encrypted": {zipped(1, zip.Store), `: "a" of the archive cannot be searched: unpack and check it`},
		"method":    {zipped(0, 97), `: "a" of the archive cannot be searched: unpack and check it`},
		"in-gzip":   {packed("BZh9\n" + setting), ": in the expanded content, line 2 contains a password"},
		"in-tar":    {archive("a", "PK\x03\x04\n"+setting), `: in "a" of the archive, line 2 contains a password`},
		"behind":    {packed("text\n") + key, fmt.Sprintf(": byte %d contains a private key", len(packed("text\n"))+15)},
		"two-tar":   {archive("a", "text\n") + archive("b", setting), `: after the end of the archive, in "b" of the archive, line 1 contains a password`},
		"window": {
			"\x28\xb5\x2f\xfd\x00\x90\x21\x00\x00text", ": expanding takes more than 128 MiB of memory, so the content was not searched: unpack and check it",
		},
	} {
		files["srv/"+name] = c[0]
		want = append(want, "/srv/"+name+c[1])
	}
	h := hosttest.Root(t, files)
	assert.ElementsMatch(t, want, audit(t, h))
}

// What is longer than the limit of a search is a finding, also without a secret.
func TestTheRestOfALongFileIsAFinding(t *testing.T) {
	for size, want := range map[int64][]string{1 << 20: nil, 1<<20 + 1: {"only the first 1 MiB of the file were searched: check the rest of the file"}} {
		in, err := os.Create(filepath.Join(t.TempDir(), "long"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = in.Close() })
		_, err = in.WriteAt(bytes.Repeat([]byte("words\n"), int(size)/6+1)[:size], 0)
		require.NoError(t, err)
		var got []string
		c := content{ctx: t.Context(), words: NewIndex(All()), most: 1 << 20, left: expandMost, found: func(text string) { got = append(got, text) }}
		require.NoError(t, c.file("/long", in, size))
		assert.Equal(t, want, got)
	}
	packed := testkit.Gzip("PK\x03\x04" + strings.Repeat("\x00", zipMost))
	h := hosttest.Root(t, map[string]string{"srv/long.gz": string(packed)})
	assert.Equal(t, []string{"/srv/long.gz: in the expanded content, a zip archive is larger than 32 MiB and was not searched: unpack and check it"}, audit(t, h))
}

// FuzzContent searches any content in all its forms.
func FuzzContent(f *testing.F) {
	for _, seed := range []string{
		"", "PK\x03\x04", "\x1f\x8b\x08\x00", "\xff\xfeA\x00", "SQLite format 3\x00", "\xfe\xed\xfe\xed\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x02",
		"\x30\x82\x01\x00\x02\x01\x00", "\x05\x02\x00\x00\x00\x30\x00\x01\xff\xff", "\x95\x01\x00\x04\x60\x00\x00\x00\x01kkkkkkk", "\xc5\xff\x04aaaaaaaaaaaaaaaa",
		"\x00\x00\x00\x07ssh-rsa\x00\x00\x00\x03\x01\x00\x01\x00\x00\x01\x01", base64.StdEncoding.EncodeToString([]byte("DB_PASSWORD=" + fill(12))), strings.Repeat("A", 300) + "\n" + strings.Repeat("B", 80),
	} {
		f.Add("/etc/app.env", []byte(seed))
	}
	words := NewIndex(All())
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		c := content{ctx: t.Context(), words: words, keys: true, left: 1 << 20, found: func(text string) { require.NotEmpty(t, text) }}
		err := c.search(part{name: name, in: bytes.NewReader(text), whole: bytes.NewReader(text), size: int64(len(text))})
		if err != nil && !errors.Is(err, errDamaged) {
			require.ErrorIs(t, err, errExpanded)
		}
	})
}
