package attest

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

var digest = "sha256:" + strings.Repeat("0123456789abcdef", 4)

// evidence is that of a clean disk.
func evidence() Evidence {
	sum := strings.Repeat("ab", 32)
	return Evidence{
		Names: []string{"eu-west-1:ami-0123456789abcdef0", "eu-west-1:snap-0123456789abcdef0"},
		Report: plan.Report{
			Tool: "0.1.0", Machine: plan.Machine{Digest: digest}, Result: plan.Clean, Finished: time.Date(2026, 11, 1, 2, 3, 4, 5, time.UTC),
			Rules: []plan.Check{{Item: "kubelet", Outcome: plan.Passed}, {Item: "logs", Outcome: plan.LeftOut, Reason: "--skip-rules"}},
		},
		Manifest: manifest.Manifest{
			Schema: manifest.Schema, Tool: "0.1.0", Distro: "debian", DistroVersion: "13", Arch: "amd64", KubernetesVersion: "1.34.4", PackageManager: "apt",
			Packages: []manifest.Package{{Name: "containerd", Version: "1.7"}},
			Assets:   []manifest.Asset{{ID: "kubelet", Version: "1.34.4", URL: "https://dl.k8s.io/v1.34.4/kubelet", SHA256: sum}, {ID: "runc", URL: "https://example.com/runc"}},
		},
		Materials: []Material{{"https://example.com/base.qcow2", "sha256", sum}},
	}
}

// pair is a private and a public key.
func pair(t *testing.T, private crypto.Signer) (signs, verifies dsse.SignerVerifier) {
	t.Helper()
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	require.NoError(t, err)
	signs, err = parseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	require.NoError(t, err)
	verifies, err = parseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
	require.NoError(t, err)
	assert.True(t, canSign(t.Context(), signs))
	assert.False(t, canSign(t.Context(), verifies))
	return signs, verifies
}

func edwards(t *testing.T) (signs, verifies dsse.SignerVerifier) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return pair(t, key)
}

func signed(t *testing.T, e Evidence, key dsse.SignerVerifier) []byte {
	t.Helper()
	text, err := e.Sign(t.Context(), key)
	require.NoError(t, err)
	return text
}

func TestAStatementIsVerifiedByItsKey(t *testing.T) {
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	numbers, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for _, key := range []crypto.Signer{edwards, curve, numbers} {
		signs, verifies := pair(t, key)
		text := signed(t, evidence(), signs)
		got, err := Verify(t.Context(), text, verifies)
		require.NoError(t, err)
		id, err := verifies.KeyID()
		require.NoError(t, err)
		assert.Equal(t, Statement{
			Key: id, Digest: digest, Names: evidence().Names, Result: Passed, Verified: time.Date(2026, 11, 1, 2, 3, 4, 0, time.UTC),
			Audit: Audit{"0.1.0", plan.Clean, evidence().Report.Rules}, Provenance: true,
			Bill: true, Components: 3,
		}, got)
		assert.Equal(t, []string{"logs"}, got.Audit.Exceptions())

		_, other := pair(t, func() crypto.Signer { k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader); return k }())
		_, err = Verify(t.Context(), text, other)
		assert.ErrorContains(t, err, "verifying the statement in line 1: the key has not signed this statement")
	}
}

// payloads are the statements of a file, without the signatures.
func payloads(t *testing.T, text []byte) (all []map[string]any) {
	t.Helper()
	for line := range bytes.Lines(text) {
		envelope := testkit.JSON[dsse.Envelope](t, line)
		body, err := base64.StdEncoding.DecodeString(envelope.Payload)
		require.NoError(t, err)
		one := testkit.JSON[map[string]any](t, body)
		all = append(all, one)
	}
	return all
}

func TestStatementsSayWhatIsKnown(t *testing.T) {
	key, public := edwards(t)
	all := payloads(t, signed(t, evidence(), key))
	require.Len(t, all, 3)
	assert.Equal(t, "https://slsa.dev/provenance/v1", all[0]["predicateType"])
	text, err := json.Marshal(all[0]["predicate"])
	require.NoError(t, err)
	assert.Contains(t, string(text), `{"digest":{"sha256":"`+strings.Repeat("ab", 32)+`"},"uri":"https://example.com/base.qcow2"}`)
	assert.Contains(t, string(text), `{"name":"containerd","uri":"pkg:deb/debian/containerd@1.7?distro=debian-13"}`)
	assert.Contains(t, string(text), `"kubernetes_version":"1.34.4"`)

	e := evidence()
	e.Manifest, e.Report.Result = manifest.Manifest{}, plan.Findings
	statements := signed(t, e, key)
	require.Len(t, payloads(t, statements), 2, "no manifest, no provenance")
	got, err := Verify(t.Context(), statements, public)
	require.NoError(t, err)
	assert.Equal(t, Failed, got.Result)
	assert.False(t, got.Provenance)
	summary, _, _ := bytes.Cut(statements, []byte("\n"))
	got, err = Verify(t.Context(), summary, public)
	require.NoError(t, err)
	assert.False(t, got.Bill, "the line with the bill is missing")

	e.Report.Machine.Digest = ""
	_, err = e.Sign(t.Context(), key)
	assert.ErrorContains(t, err, "the audit has no digest of the disk")
}

// A file that was put together from signed statements is refused.
func TestStatementsOfAFileBelongTogether(t *testing.T) {
	key, public := edwards(t)
	lines := bytes.SplitAfter(signed(t, evidence(), key), []byte("\n"))
	other := evidence()
	other.Report.Machine.Digest = strings.Replace(digest, "0", "1", 1)
	strangers := bytes.SplitAfter(signed(t, other, key), []byte("\n"))
	for want, text := range map[string][][]byte{
		"the statement is about two disks":                 {lines[0], strangers[1]},
		"line 2: the file has two summaries of an audit":   {lines[1], lines[1]},
		"no line has the summary of an audit":              {lines[0]},
		"line 1: reading the envelope: unexpected end of ": {[]byte("{")},
	} {
		_, err := Verify(t.Context(), bytes.Join(text, nil), public)
		assert.ErrorContains(t, err, want)
	}
	signer, err := dsse.NewEnvelopeSigner(key)
	require.NoError(t, err)
	for kind, want := range map[string]string{"text/plain": `the type of the payload is "text/plain"`, payloadType: "wrong statement type"} {
		envelope, err := signer.SignPayload(t.Context(), kind, []byte("{}"))
		require.NoError(t, err)
		text, err := json.Marshal(envelope)
		require.NoError(t, err)
		_, err = Verify(t.Context(), text, public)
		assert.ErrorContains(t, err, want)
	}
}

// Each of 200 random changes is found, or changes nothing of what the file says.
func TestChangedStatementsAreFound(t *testing.T) {
	key, public := edwards(t)
	text := signed(t, evidence(), key)
	want, err := Verify(t.Context(), text, public)
	require.NoError(t, err)
	r := mathrand.New(mathrand.NewPCG(1, 2))
	found := 0
	for n := range 200 {
		changed := bytes.Clone(text)
		at := r.IntN(len(changed))
		switch n % 3 {
		case 0:
			changed[at] ^= 1 << r.IntN(8)
		case 1:
			changed = append(changed[:at], changed[min(len(changed), at+1+r.IntN(40)):]...)
		default:
			to := r.IntN(len(changed))
			changed[at], changed[to] = changed[to], changed[at]
		}
		got, err := Verify(t.Context(), changed, public)
		if err != nil {
			found++
			continue
		}
		assert.Equal(t, want, got, "%q", changed)
	}
	assert.Greater(t, found, 180)
}

func TestKeysThatCannotBeUsed(t *testing.T) {
	for want, text := range map[string]string{
		"openssl genpkey": "no key", "unsupported PEM type": "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n",
	} {
		_, err := parseKey([]byte(text))
		assert.ErrorContains(t, err, want)
	}
	m, err := ParseMaterial("https://example.com/a?b=c=sha256:" + strings.Repeat("ab", 32))
	require.NoError(t, err)
	assert.Equal(t, "https://example.com/a?b=c", m.URI)
	for _, text := range []string{"", "x", "=sha256:ab", "https://example.com=sha256", "https://example.com=sha256:xy"} {
		_, err := ParseMaterial(text)
		assert.ErrorContains(t, err, "is not a material such as")
	}
}
