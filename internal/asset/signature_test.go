package asset

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			m.files = map[string][]byte{"/SUMS": []byte(c.text), "/SUMS.gpg": []byte(c.signature), "/node.qcow2": []byte("abc")}
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
