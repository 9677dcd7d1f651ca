package asset

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var (
	sumA = strings.Repeat("a1", 32)
	sumB = strings.Repeat("b2", 32)
)

func TestParseSumReadsChecksumFiles(t *testing.T) {
	tests := map[string]struct {
		text      string
		form      SumForm
		want, err string
	}{
		"bare":                     {text: sumA, form: Bare, want: sumA},
		"bare with a line break":   {text: sumA + "\n", form: Bare, want: sumA},
		"bare in capitals":         {text: strings.ToUpper(sumA), form: Bare, want: sumA},
		"bare with the right name": {text: sumA + "  file.tgz\n", form: Bare, want: sumA},
		"bare with another name":   {text: sumA + "  other.tgz\n", form: Bare, err: "the file does not list file.tgz"},
		"listed":                   {text: sumA + "  file.tgz\n", form: Listed, want: sumA},
		"listed as binary":         {text: sumA + " *file.tgz\n", form: Listed, want: sumA},
		"listed in a folder":       {text: sumA + "  ./release/file.tgz\n", form: Listed, want: sumA},
		"listed among others":      {text: sumB + "  other.tgz\n\n" + sumA + "  file.tgz\n", form: Listed, want: sumA},
		"listed twice alike":       {text: sumA + "  file.tgz\n" + sumA + "  file.tgz\n", form: Listed, want: sumA},
		"clear-signed": {text: "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + sumB + "  other.tgz\n" + sumA + "  file.tgz\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n",
			form: Listed, want: sumA},
		"line ends of DOS":                      {text: sumA + "  file.tgz\r\n", form: Listed, want: sumA},
		"listed twice, differently":             {text: sumA + "  file.tgz\n" + sumB + "  file.tgz\n", form: Listed, err: "the file has two different sums of file.tgz"},
		"two bare ones":                         {text: sumA + "\n" + sumB + "\n", form: Bare, err: "the file has two different sums of file.tgz"},
		"not listed":                            {text: sumB + "  other.tgz\n", form: Listed, err: "the file does not list file.tgz"},
		"a name with the file's name as suffix": {text: sumB + "  myfile.tgz\n", form: Listed, err: "the file does not list file.tgz"},
		"a sum without a name":                  {text: sumA + "\n", form: Listed, err: `the line "` + sumA + `" names no file`},
		"empty":                                 {text: "", form: Bare, err: "the file is empty"},
		"only blank lines":                      {text: " \n\n", form: Listed, err: "the file is empty"},
		"HTML":                                  {text: "<html>\n<body>Sorry</body>", form: Bare, err: `the line "<html>" is not a SHA-256`},
		"too short":                             {text: sumA[:62], form: Bare, err: `the line "` + sumA[:62] + `" is not a SHA-256`},
		"another hash":                          {text: strings.Repeat("a", 128), form: Bare, err: `the line "` + strings.Repeat("a", 100) + `" is not a SHA-256`},
		"not hexadecimal":                       {text: strings.Repeat("xy", 32), form: Bare, err: `the line "` + strings.Repeat("xy", 32) + `" is not a SHA-256`},
		"three words":                           {text: sumA + " file.tgz more\n", form: Listed, err: `the line "` + sumA + ` file.tgz more" is not a SHA-256`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSum(test.text, test.form, "file.tgz")
			if test.err != "" {
				require.EqualError(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func FuzzParseSum(f *testing.F) {
	f.Add(sumA+"  file.tgz\n", true)
	f.Add(sumA, false)
	f.Add(strings.ToUpper(sumB)+" *a/file.tgz", true)
	f.Fuzz(func(t *testing.T, text string, listed bool) {
		form := Bare
		if listed {
			form = Listed
		}
		sum, err := ParseSum(text, form, "file.tgz")
		if err != nil {
			assert.Empty(t, sum, "an error must come without a sum")
			return
		}
		assert.True(t, IsSum(sum))
		assert.Contains(t, strings.ToLower(text), sum, "the sum must be in the text")
		if listed {
			assert.Contains(t, text, "file.tgz")
		}
	})
}

// program is the head of a program for an architecture.
func program(arch string) []byte {
	var out bytes.Buffer
	head := elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(machines[arch])}
	_ = binary.Write(&out, binary.LittleEndian, head) // into memory
	return out.Bytes()
}

// oneMember is an archive with one executable.
func oneMember(name string, mode int64, content []byte) []byte {
	return testkit.Gzip(testkit.Tar(mode, name, string(content)))
}

// A mirror's own checksum file matches whatever the mirror serves.
func TestLockRefusesWhatIsNotTheAsset(t *testing.T) {
	const archive = "/github.com/containernetworking/plugins/releases/download/v1.10.0/cni-plugins-linux-amd64-v1.10.0.tgz"
	small := program("amd64")
	small[elf.EI_CLASS] = byte(elf.ELFCLASS32)
	tests := map[string]struct {
		id      string
		content []byte
		err     string // empty for an asset
	}{
		"a program":           {"kubelet", program("amd64"), ""},
		"a page":              {"kubelet", []byte("<html>moved, see the other server</html>"), "the file is not an ELF program"},
		"nothing":             {"kubelet", nil, "the file is not an ELF program"},
		"a program of others": {"kubelet", program("arm64"), "the program is for EM_AARCH64, not for amd64"},
		"32 bits":             {"kubelet", small, "the program is for EM_X86_64, not for amd64"},
		"an archive":          {"cni-plugins", oneMember("./bridge", 0o755, program("amd64")), ""},
		"an archive of others": {"cni-plugins", oneMember("./bridge", 0o755, program("arm64")),
			`the archive's member "./bridge": the program is for EM_AARCH64, not for amd64`},
		"an archive without a program": {"cni-plugins", oneMember("bridge", 0o755, []byte("#!/bin/sh")), "the archive has no program"},
		"an archive that leads out": {"cni-plugins", oneMember("../bridge", 0o755, program("amd64")),
			`the archive's member "../bridge" would lie outside /opt/cni/bin`},
		"a link that leads out": {"cni-plugins", tgz(t, &tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}), `the archive's link "a" points to "/etc", outside /opt/cni/bin`},
		"no archive":            {"cni-plugins", program("amd64"), "the archive is not gzip: gzip: invalid header"},
		"a bomb":                {"cni-plugins", oneMember("zeros", 0o644, make([]byte, freeInflated+(2<<20))), errInflated.Error()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.put(where, test.content)
			m.put(archive, test.content)
			choice := Choice{Kubernetes: "1.34.4", Arch: "amd64", Source: m.URL, SHA256: sumOf(test.content)}
			_, err := NewCache(t.TempDir(), hasty()).Lock(t.Context(), row(t, test.id), choice, quietly)
			if test.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "is not what it should be: "+test.err+"; check the mirror "+m.URL)
		})
	}
}

func TestPlainHTTPNeedsAPin(t *testing.T) {
	pin := sumOf(nil)
	locked := lockedKubelet()
	for name, test := range map[string]struct {
		choice  Choice
		refused bool
	}{
		"a mirror":         {Choice{Source: "http://mirror.example"}, true},
		"in capitals":      {Choice{Source: "HTTP://mirror.example"}, true},
		"on this machine":  {Choice{Source: "http://127.0.0.1:8080"}, true},
		"said explicitly":  {Choice{Source: "http://mirror.example", AllowHTTP: true}, false},
		"with a checksum":  {Choice{Source: "http://mirror.example", SHA256: pin}, false},
		"with a lock file": {Choice{Source: "http://mirror.example", Lock: &Lock{Assets: []Locked{locked}}}, false},
		"with TLS":         {Choice{Source: "https://mirror.example"}, false},
		"a folder":         {Choice{Source: "file:///media/mirror"}, false},
		"the publisher":    {Choice{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.choice.Kubernetes, test.choice.Arch = "1.34.4", "amd64"
			_, err := kubelet().For(test.choice)
			if test.refused {
				require.ErrorContains(t, err, "has no TLS, so the file and its checksum can be replaced on the way; use https://, a lock file or checksums[\"kubelet\"], or accept the risk with allow_http")
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestRedirectsKeepTLS(t *testing.T) {
	m := newMirror(t)
	m.put(where, program("amd64"))
	asked := 0
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, m.URL+r.URL.Path, http.StatusFound)
	}))
	t.Cleanup(secure.Close)
	f := newFetcher(secure.Client().Transport, Patience{Attempts: 4, Wait: time.Millisecond, Stall: time.Minute})
	_, err := f.Open(t.Context(), secure.URL+where, 0)
	require.ErrorContains(t, err, "the server redirects from https to http")
	assert.Equal(t, 1, asked, "another attempt would get the same redirect")
	assert.Empty(t, m.requests())
	_, err = f.exists(t.Context(), secure.URL+where)
	require.ErrorContains(t, err, "the server redirects from https to http")
}

// gpg makes a key and signs the checksum file, as Fedora does.
func TestSignedChecksumFiles(t *testing.T) {
	const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of abc
	home := t.TempDir()
	gpg := func(in string, args ...string) string {
		t.Helper()
		quiet := []string{"--batch", "--homedir", home, "--pinentry-mode", "loopback", "--passphrase", ""}
		cmd := exec.Command("gpg", append(quiet, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	t.Cleanup(func() { _ = exec.Command("gpgconf", "--homedir", home, "--kill", "all").Run() })
	for _, name := range []string{"publisher", "stranger"} {
		gpg("", "--quick-gen-key", name, "ed25519", "sign", "never")
	}
	key := gpg("", "--armor", "--export", "publisher")
	text := "SHA256 (node.qcow2) = " + sum + "\n"
	good := gpg(text, "--local-user", "publisher", "--clearsign")
	of := func(content, signer string) string { return gpg(content, "--local-user", signer, "--detach-sign") }
	apart := of(text, "publisher")
	const unsigned = "the publisher's key has not signed this file"
	for name, c := range map[string]struct{ text, why, signature string }{
		"signed":                {good, "", ""},
		"not signed":            {text, unsigned, ""},
		"signed by another key": {gpg(text, "--local-user", "stranger", "--clearsign"), unsigned, ""},
		"changed after signing": {strings.Replace(good, sum[:8], "00000000", 1), unsigned, ""},
		"only the rest has sums": {
			text + gpg("nothing\n", "--local-user", "publisher", "--clearsign"), "does not list node.qcow2", "",
		},
		"signed apart":                        {text, "", apart},
		"signed apart by another key":         {text, unsigned, of(text, "stranger")},
		"signed apart, and changed":           {strings.Replace(text, sum[:8], "00000000", 1), unsigned, apart},
		"image signed":                        {text, "", of("abc", "publisher")},
		"image signed by another key":         {text, unsigned, of("abc", "stranger")},
		"image with the signature of another": {text, unsigned, apart},
		"image with no signature":             {text, unsigned, "none"},
		"another text with its own signature": {text, unsigned, good},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMirror(t)
			m.files = map[string][]byte{"/SUMS": []byte(c.text), "/SUMS.gpg": []byte(c.signature),
				"/node.qcow2": []byte("abc")}
			cache := NewCache(t.TempDir(), hasty())
			b := Base{URL: m.URL + "/node.qcow2", Sums: m.URL + "/SUMS", Key: key}
			if c.signature != "" {
				b.Signature = b.Sums + ".gpg"
			}
			if strings.HasPrefix(name, "image") {
				b.ImageSignature, b.Signature = b.Signature, ""
			}
			path, err := cache.Base(t.Context(), b, quietly)
			if c.why != "" {
				require.ErrorContains(t, err, c.why)
				return
			}
			require.NoError(t, err)
			assert.FileExists(t, path)
		})
	}
}
