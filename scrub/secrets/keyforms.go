package secrets

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/expand"
)

// magics are the beginnings of files that have keys or passwords in a form that
// is no text.
func magics() []struct{ start, kind string } {
	return []struct{ start, kind string }{
		{"openssh-key-v1\x00", "a private key of OpenSSH"},
		{"(11:private-key", "a private key of GnuPG"}, // GnuPG: agent/keyformat.txt
		{"(21:protected-private-key", "a private key of GnuPG"},
		{"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5", "a KeePass database"},
		{"\x03\xd9\xa2\x9a\x65\xfb\x4b\xb5", "a KeePass database"},
	}
}

// keyForm names the kind of key file that a content is, from its beginning;
// empty for other contents. Texts are found by patterns.
func keyForm(name string, head []byte) string {
	for _, m := range magics() {
		if bytes.HasPrefix(head, []byte(m.start)) {
			return m.kind
		}
	}
	switch {
	case len(head) < 16: // too short for a key
	case bytes.HasPrefix(head, []byte{0xfe, 0xed, 0xfe, 0xed}), bytes.HasPrefix(head, []byte{0xce, 0xce, 0xce, 0xce}):
		if javaKey(head) {
			return "a Java key store with a private key"
		}
	case head[0] == 0x30: // which is also the digit 0 of a text
		if kind := derForm(head); kind != "" {
			return kind
		}
	case bytes.HasPrefix(head, []byte{5, 2, 0, 0}) && keytab(head):
		return "a Kerberos keytab"
	case head[0]&0xfc == 0x94 || head[0] == 0xc5:
		if secretRing(head) {
			return "a private key of OpenPGP"
		}
	case bytes.HasPrefix(head, []byte("\x00\x00\x00\x0bssh-ed25519\x00\x00\x00\x40")), dropbear(head):
		return "a private key of Dropbear"
	}
	if namesSecret(name, head) {
		return "a secret by its name, with one value"
	}
	if strings.HasSuffix(path.Dir(name), "/private-keys-v1.d") && bytes.Contains(head, []byte("private-key")) {
		return "a private key of GnuPG"
	}
	return ""
}

// secretNames are parts of the names of files that have one secret, as programs
// in containers read them.
var secretNames = []string{
	"password", "passwd", "passphrase", "secret", "token", "apikey", "api_key", "api-key", "privatekey", "private_key",
	"private-key", "preshared", "wgkey", "psk",
}

// namesSecret reports whether a file with one value is named like a secret.
func namesSecret(name string, head []byte) bool {
	base, value := strings.ToLower(path.Base(name)), strings.TrimRight(string(head), "\r\n")
	if strings.HasPrefix(base, "passwd") || len(value) < 6 || len(value) > 512 || strings.ContainsAny(value, " \t\n") ||
		!isPrintable([]byte(value)) || !plausible(value) || !settings(name) {
		return false
	}
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(base, part) })
}

// dropbear reports whether a content is an RSA key whose numbers go on after the public
// ones.
func dropbear(head []byte) bool {
	rest, is := bytes.CutPrefix(head, []byte("\x00\x00\x00\x07ssh-rsa\x00\x00\x00\x03\x01\x00\x01"))
	if !is || len(rest) < 4 {
		return false
	}
	n := binary.BigEndian.Uint32(rest)
	return n < 4096 && len(rest) >= int(n)+8
}

// javaKey reports whether a key store has an entry of a private or secret key.
// Source: OpenJDK, sun.security.provider.JavaKeyStore.
func javaKey(head []byte) bool {
	in := fields{head, true}
	in.take(4)
	version, count := in.number(4), in.number(4)
	for range count {
		tag := in.number(4)
		if !in.ok {
			return false
		}
		if tag != 2 {
			return tag == 1 || tag == 3
		}
		in.take(int(in.number(2))) // the alias
		in.take(8)
		if version == 2 {
			in.take(int(in.number(2)))
		}
		in.take(int(in.number(4)))
	}
	return false
}

// fields reads numbers and texts of a binary form.
type fields struct {
	rest []byte
	ok   bool
}

func (f *fields) take(n int) []byte {
	if !f.ok || n < 0 || n > len(f.rest) {
		f.ok, f.rest = false, nil
		return nil
	}
	taken := f.rest[:n]
	f.rest = f.rest[n:]
	return taken
}

func (f *fields) number(size int) uint32 {
	var n uint32
	for _, b := range f.take(size) {
		n = n<<8 | uint32(b)
	}
	return n
}

// keytab reports whether a content has the form of MIT Kerberos' keytab: an
// entry with its size, at most ten parts of a name, and a realm.
func keytab(head []byte) bool {
	in := fields{head, true}
	in.take(2)
	size, parts, realm := in.number(4), in.number(2), in.number(2)
	name := in.take(int(realm))
	return in.ok && size < 4096 && parts >= 1 && parts <= 10 && realm > 0 && isPrintable(name)
}

func isPrintable(text []byte) bool {
	return !slices.ContainsFunc(text, func(b byte) bool { return b < ' ' || b > '~' })
}

// secretRing reports whether a content begins with a secret key's packet of
// OpenPGP, of version 4 to 6 (RFC 9580).
func secretRing(head []byte) bool {
	at := map[byte]int{0x94: 2, 0x95: 3, 0x96: 5}[head[0]]
	if head[0] == 0xc5 {
		if at = 2; head[1] >= 192 {
			at = 3
		}
	}
	if at == 0 || len(head) < at+6 || head[at] < 4 || head[at] > 6 {
		return false
	}
	algorithm := head[at+5]
	return algorithm >= 1 && algorithm <= 3 || algorithm >= 16 && algorithm <= 28
}

// The parts of PKCS #12 (RFC 7292) that have private keys.
var (
	pkcs12Data   = []byte{0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01}
	pkcs12KeyBag = []byte{0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01}
)

func derForm(head []byte) string {
	var outer asn1.RawValue
	if _, err := asn1.Unmarshal(head, &outer); err != nil || outer.Tag != asn1.TagSequence {
		// A key store may be longer than the head.
		if at := bytes.Index(head[:min(len(head), 64)], pkcs12Data); at > 0 && hasKeyBag(head) {
			return "a PKCS #12 key store"
		}
		return ""
	}
	der := outer.FullBytes
	_, notPKCS8 := x509.ParsePKCS8PrivateKey(der)
	_, notPKCS1 := x509.ParsePKCS1PrivateKey(der)
	if _, notEC := x509.ParseECPrivateKey(der); notPKCS8 == nil || notPKCS1 == nil || notEC == nil {
		return "a private key in DER"
	}
	if bytes.Contains(der[:min(len(der), 64)], pkcs12Data) && hasKeyBag(der) {
		return "a PKCS #12 key store"
	}
	var dsa struct{ Version, P, Q, G, Y, X asn1.RawValue }
	if rest, err := asn1.Unmarshal(der, &dsa); err == nil && len(rest) == 0 &&
		bytes.Equal(dsa.Version.FullBytes, []byte{2, 1, 0}) && dsa.X.Tag == asn1.TagInteger &&
		dsa.P.Tag == asn1.TagInteger && len(dsa.P.Bytes) > 64 {
		return "a private key in DER"
	}
	var sealed struct {
		Algorithm struct {
			ID         asn1.ObjectIdentifier
			Parameters asn1.RawValue `asn1:"optional"`
		}
		Key []byte
	}
	if rest, err := asn1.Unmarshal(der, &sealed); err == nil && len(rest) == 0 && isEncryption(sealed.Algorithm.ID) {
		return "a private key in DER"
	}
	return ""
}

// hasKeyBag reports whether a key store has a bag with a key or with an
// encrypted key.
func hasKeyBag(der []byte) bool {
	return bytes.Contains(der, append(pkcs12KeyBag[:len(pkcs12KeyBag):len(pkcs12KeyBag)], 1)) ||
		bytes.Contains(der, append(pkcs12KeyBag[:len(pkcs12KeyBag):len(pkcs12KeyBag)], 2))
}

// isEncryption reports whether an algorithm is one of PKCS #5 or PKCS #12, which
// encrypt private keys.
func isEncryption(id asn1.ObjectIdentifier) bool {
	text := id.String()
	return strings.HasPrefix(text, "1.2.840.113549.1.5.") || strings.HasPrefix(text, "1.2.840.113549.1.12.1.")
}

// runLeast is how long a base64 text must be to be decoded.
const runLeast = 24

// base64Runs searches the base64 texts in a text.
type base64Runs struct {
	c    *content
	part part
}

// block decodes the base64 texts that begin between from and limit.
func (r *base64Runs) block(text []byte, from, limit int, line int64) {
	i := from
	for i > 0 && i < len(text) && isBase64(text[i]) && (i > from || isBase64(text[i-1])) {
		i++ // the run began in the block before
	}
	for i < limit {
		end := i + runLeast
		if end > len(text) {
			break
		}
		last := end - 1
		for last >= i && isBase64(text[last]) {
			last--
		}
		if last >= i { // most words are short: go on behind the last gap
			i = last + 1
			continue
		}
		encoded, after := wholeRun(text, i)
		if !isArmor(text[:i]) {
			r.decode(encoded, text[:i], line)
		}
		i = after
	}
}

// wholeRun returns a base64 text without the ends of its lines, and where it
// ends.
func wholeRun(text []byte, begin int) (encoded []byte, end int) {
	for i := begin; ; {
		start := i
		for i < len(text) && isBase64(text[i]) {
			i++
		}
		encoded = append(encoded, text[start:i]...)
		if end = i; i-start < 60 {
			return encoded, end
		}
		for i < len(text) && (text[i] == '\n' || text[i] == '\r' || text[i] == ' ' || text[i] == '\t') {
			i++
		}
		if i == end || i == len(text) || !isBase64(text[i]) {
			return encoded, end
		}
	}
}

// isArmor reports whether a text ends with the first line of a PEM block, whose
// kind the line names.
func isArmor(before []byte) bool {
	return bytes.HasSuffix(bytes.TrimRight(before, " \t\r\n"), []byte("KEY-----"))
}

func isBase64(b byte) bool {
	return isToken(b) || b == '+' || b == '/'
}

// decode searches a base64 text if it means something: most runs of letters are
// names and digests.
func (r *base64Runs) decode(encoded, before []byte, line int64) {
	for i, b := range encoded {
		switch b {
		case '-':
			encoded[i] = '+'
		case '_':
			encoded[i] = '/'
		}
	}
	var start [48]byte
	n, err := base64.RawStdEncoding.Decode(start[:], encoded[:min(64, len(encoded)/4*4)])
	if err != nil || !meaningful(start[:n]) {
		return
	}
	line += int64(bytes.Count(before, []byte("\n"))) + 1
	if len(encoded)%4 == 1 { // cut off
		encoded = encoded[:len(encoded)-1]
	}
	decoded := make([]byte, base64.RawStdEncoding.DecodedLen(len(encoded)))
	if n, err = base64.RawStdEncoding.Decode(decoded, encoded); err != nil && n == 0 {
		return
	}
	where := fmt.Sprintf("in the base64 text of line %d, ", line)
	_ = r.c.inside(r.part.inner(decodedName, where, expanding{bytes.NewReader(decoded[:n]), r.c}))
}

// isSequence reports whether a content may be a key in DER.
func isSequence(head []byte) bool {
	return len(head) > 4 && head[0] == 0x30 &&
		(head[1] == 0x81 || head[1] == 0x82 || bytes.Equal(head[2:5], []byte{2, 1, 0}))
}

// meaningful reports whether decoded bytes begin a text, a key or a compressed
// file.
func meaningful(head []byte) bool {
	if expand.Is(head) || isSequence(head) || keyForm("", head) != "" || wideText(head, nil) != nil {
		return true
	}
	for i := 0; i < len(head); {
		c, size := utf8.DecodeRune(head[i:])
		if c == utf8.RuneError && len(head)-i >= utf8.UTFMax || c == 0x7f ||
			c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return false
		}
		i += size
	}
	return len(head) > 0
}
