package nodeconfig

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Amazon's nodeadm reads the first document of a text and ignores the others without a
// message: its dump of the first case has no flags.
func TestOnlyTheFirstDocumentIsRead(t *testing.T) {
	const first = head + "spec: {cluster: {name: a}}\n"
	const ignored = "a second YAML document is ignored: Amazon's nodeadm reads the first document only; put the second into a MIME part of its own"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a NodeConfig":     {first + "---\n" + head + "spec: {kubelet: {flags: [--v=9]}}\n", []string{"line 4: " + ignored}},
		"another kind":     {first + "---\nkind: Other\n", []string{"line 4: " + ignored}},
		"no YAML":          {first + "---\nfoo: [\n", []string{"the YAML after the first document is ignored: Amazon's nodeadm reads the first document only; put the rest into a MIME part of its own"}},
		"nothing":          {first + "---\n# the end\n", nil},
		"nothing before":   {"---\n# nothing\n---\n" + first, nil},
		"in a second part": {twoParts(first, head+"spec: {}\n---\n"+head), []string{"line 16: " + ignored}},
	} {
		t.Run(name, func(t *testing.T) {
			c2, warnings, err := Parse([]byte(c.text))
			require.NoError(t, err)
			assert.Equal(t, Spec{Cluster: Cluster{Name: "a"}}, c2.Spec)
			assert.Equal(t, c.want, warnings)
		})
	}
}

// User data that works on Amazon's images: strategies in upper and lower case, dates and
// addresses without quotes.
func TestValuesWithoutQuotes(t *testing.T) {
	c := parse(t, []byte(head+"spec:\n  cluster: {name: 2024-01-01, cidr: 10.0.0.0/16}\n  instance: {localStorage: {strategy: raid0}, environment: {default: {A: 1.2.3.4, B: 12:30:45, C: nope}}}\n"))
	assert.Equal(t, "2024-01-01", c.Spec.Cluster.Name)
	assert.Equal(t, RAID0, c.Spec.Instance.LocalStorage.Strategy)
	assert.Equal(t, map[string]string{"A": "1.2.3.4", "B": "12:30:45", "C": "nope"}, c.Spec.Instance.Environment["default"])
	for given, want := range map[string]string{"Raid10": RAID10, "mount": Mount, "None": "", "raid5": "raid5"} {
		assert.Equal(t, want, parse(t, []byte(head+"spec: {instance: {localStorage: {strategy: "+given+"}}}\n")).Spec.Instance.LocalStorage.Strategy)
	}
}

func TestEndpointsWithoutTLSAreWarnings(t *testing.T) {
	for endpoint, want := range map[string]string{
		"https://a.example":          "",
		"http://a.example:8080":      `spec.cluster.apiServerEndpoint: "http://a.example:8080" is not https: the kubelet sends its credentials unencrypted`,
		"HTTP://localhost":           `spec.cluster.apiServerEndpoint: "HTTP://localhost" is not https: the kubelet sends its credentials unencrypted`,
		"a.gr7.eks.amazonaws.com":    `spec.cluster.apiServerEndpoint: "a.gr7.eks.amazonaws.com" names no scheme: the kubelet takes https; write https://a.gr7.eks.amazonaws.com`,
		"10.0.0.1:6443":              `spec.cluster.apiServerEndpoint: "10.0.0.1:6443" names no scheme: the kubelet takes https; write https://10.0.0.1:6443`,
		"tcp://a.example":            "error",
		"api-server-endpoint":        "error",
		"http://a\nb":                "error",
		"http://":                    "error",
		"http://user:pass@a.example": "error",
	} {
		c := &NodeConfig{Spec: Spec{Cluster: Cluster{Name: "a", APIServerEndpoint: endpoint, CertificateAuthority: Base64("a"), CIDR: "10.0.0.0/16"}}}
		if want == "error" {
			assert.ErrorContains(t, c.Validate(), "must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com", endpoint)
			continue
		}
		require.NoError(t, c.Validate(), endpoint)
		assert.Equal(t, want, strings.Join(c.Warnings(), "\n"))
	}
	host, err := EndpointHost("10.0.0.1:6443")
	require.NoError(t, err)
	assert.Equal(t, "10.0.0.1", host)
}

// User data of other programs does not stop a boot. A NodeConfig with a mistake does,
// even if other sources have a NodeConfig.
func TestUserDataOfOtherProgramsIsIgnored(t *testing.T) {
	files := afero.NewMemMapFs()
	require.NoError(t, afero.WriteFile(files, "/d/1.yaml", []byte(head+"spec: {cluster: {name: a}}\n"), 0o644))
	load := func(text string, sources ...string) (*NodeConfig, []string, error) {
		return Reader{Files: files, UserData: func(context.Context) ([]byte, error) { return []byte(text), nil }}.Load(t.Context(), sources)
	}
	for name, text := range map[string]string{
		"text": "hello\n", "JSON": `{"a": 1}`, "JSON list": "[1]", "variables": "KEY=value\nOTHER=it's\n", "YAML": "foo: bar\nlist: [1]\n", "no YAML": "a: b: c\n",
		"another kind": "apiVersion: v1\nkind: ConfigMap\n", "base64": base64.StdEncoding.EncodeToString([]byte("hello: world")), "gzip": zipped("KEY=value\n"),
		"another spec": "spec: {nodes: 3}\n", "MIME that is cut off": "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: text/plain\n\nhello\n",
		"a file for the folder": "- path: /etc/eks/nodeadm.d/x.yaml\n  content: 'apiVersion: node.eks.aws/v1alpha1'\n", "a date": "2024-01-01\n", "binary": "\x00\x01\x02",
	} {
		t.Run(name, func(t *testing.T) {
			c, warnings, err := load(text, UserDataSource, "file:///d/")
			require.NoError(t, err)
			assert.Equal(t, "a", c.Spec.Cluster.Name)
			require.Len(t, warnings, 1)
			assert.True(t, strings.HasPrefix(warnings[0], "imds://user-data: no NodeConfig in it: "), warnings[0])
			_, _, err = load(text, UserDataSource)
			assert.ErrorIs(t, err, ErrNone)
			require.NoError(t, afero.WriteFile(files, "/file.yaml", []byte(text), 0o644))
			_, _, err = load(text, "file:///file.yaml")
			require.Error(t, err)
			assert.NotErrorIs(t, err, ErrNone, "a file must hold a NodeConfig")
		})
	}
	for name, text := range map[string]string{
		"unknown field": head + "spec: {foo: 1}\n", "misspelt version": "apiVersion: node.eks.aws/v1alpha\nkind: NodeConfig\n", "no version": "kind: NodeConfig\n",
		"no identity": "spec: {cluster: {name: a}}\n", "no YAML": head + "spec: a: b\n", "JSON with a mistake": `{"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"foo": 1}}`,
		"a part with a mistake": twoParts(head, head+"spec: {foo: 1}\n"),
	} {
		_, _, err := load(text, UserDataSource, "file:///d/")
		require.Error(t, err, name)
		assert.NotErrorIs(t, err, ErrNone, name)
	}
}

// Every problem of a merged NodeConfig has the line of the user data that has the
// value, or the object that lacks the value.
func TestProblemsHaveTheirLines(t *testing.T) {
	const head = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
	first := head + "spec:\n  cluster:\n    name: a b\n    apiServerEndpoint: a\n  kubelet:\n    flags: [--v=2, \"a\\nb\"]\n"
	second := head + "spec:\n  instance:\n    localStorage: {strategy: RAID1}\n  kubelet:\n    flags:\n    - \"c\\nd\"\n"
	text := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=X\n\n--X\nContent-Type: application/node.eks.aws\n\n" + first +
		"--X\nContent-Type: application/node.eks.aws\n\n" + second + "--X--\n"
	c, _, err := Parse([]byte(text))
	require.NoError(t, err)
	var lines []string
	for line := range strings.Lines(c.Located(c.Validate()).Error()) {
		at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		field, _, _ := strings.Cut(rest, ": ")
		lines = append(lines, at+" "+field)
	}
	assert.Equal(t, []string{
		"line 10 spec.cluster.certificateAuthority", "line 10 spec.cluster.cidr", "line 11 spec.cluster.name", "line 12 spec.cluster.apiServerEndpoint",
		"line 14 spec.kubelet.flags[1]", "line 25 spec.kubelet.flags[2]", "line 22 spec.instance.localStorage.strategy",
	}, lines)

	c, _, err = Parse([]byte(head))
	require.NoError(t, err)
	assert.Contains(t, c.Located(c.Validate()).Error(), "line 2: spec.cluster.name: is missing")
	assert.NoError(t, c.Located(nil))
}

// Each part and each problem has its line.
func TestPartsHaveTheirLines(t *testing.T) {
	parts, problems := ReadMIME(`
MIME-Version: 1.0
Content-Type: multipart/mixed;
 boundary=X

--X
Content-Type: text/x-shellscript

#!/bin/sh
--X
Content-Type: multipart/mixed; boundary=Y

--Y
Content-Type: text/cloud-config
#cloud-config
--Y--
--X
Content-Transfer-Encoding: quoted-printable

a=3Db=
c
--X-- 
Content-Type: text/plain
`)
	var got []string
	for _, p := range parts {
		got = append(got, fmt.Sprintf("%d %d %s %q %v", p.Line, p.Before, p.Media, p.Text, p.Encoded))
	}
	assert.Equal(t, []string{
		`7 8 text/x-shellscript "#!/bin/sh" false`, `14 14 text/cloud-config "#cloud-config" false`, `18 19  "a=bc" true`,
	}, got)
	var said []string
	for _, p := range problems {
		said = append(said, p.Error())
	}
	assert.Equal(t, []string{
		"line 18: Content-Type: the part has none that can be read",
		"line 23: this part follows --X--, which in line 22 ended the last; no program reads the part",
	}, said)
}

// FuzzReadMIME writes messages with mime/multipart: both read the same parts.
func FuzzReadMIME(f *testing.F) {
	f.Add("#!/bin/sh\r\necho\r\n", "apiVersion: x", "text/plain")
	f.Add("", "\n\n--X\n--X--", MediaType)
	f.Add("\r", "a\r\r\n", "a/b; c=d")
	f.Fuzz(func(t *testing.T, first, second, media string) {
		if strings.ContainsFunc(media, func(r rune) bool { return r < ' ' || r > '~' }) || strings.HasPrefix(strings.TrimSpace(media), "multipart/") {
			return // not a header value, or nested parts
		}
		var text bytes.Buffer
		w := multipart.NewWriter(&text)
		for _, body := range []string{first, second} {
			part, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {media}})
			require.NoError(t, err)
			_, err = io.WriteString(part, body)
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		parts, problems := ReadMIME("MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=" + w.Boundary() + "\r\n\r\n" + text.String())
		for _, p := range problems {
			if p.Severity == Fatal {
				require.Equal(t, "Content-Type", p.Field, p.Error())
				return // both parts have this type
			}
		}
		var want, got []string
		r := multipart.NewReader(&text, w.Boundary())
		for {
			part, err := r.NextPart()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			body, err := io.ReadAll(part)
			require.NoError(t, err)
			want = append(want, strings.TrimSuffix(string(body), "\r"))
		}
		for _, p := range parts {
			got = append(got, strings.TrimSuffix(p.Text, "\r"))
		}
		require.Equal(t, want, got)
	})
}
