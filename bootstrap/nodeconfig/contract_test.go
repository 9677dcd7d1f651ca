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
	"time"

	"github.com/spf13/afero"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
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
	for given, want := range map[string]string{"Raid10": RAID10, "mount": Mount, "None": "none", "raid5": "raid5"} {
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
	parts, problems := ReadMIME(string(read(t, "lines.mime")))
	got := show.Each(parts,
		func(p Part) string {
			return fmt.Sprintf("%d %d %s %q %v", p.Line, p.Before, p.Media, p.Text, p.Encoded)
		})
	assert.Equal(t, []string{
		`7 8 text/x-shellscript "#!/bin/sh" false`, `14 14 text/cloud-config "#cloud-config" false`, `18 19  "a=bc" true`,
	}, got)
	said := show.Each(problems, func(p MIMEProblem) string { return p.Error() })
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

func podValues() map[string]int64 {
	return map[string]int64{DefaultENIs: 3, IPsPerENI: 6, MaxPods: 17, VCPUs: 0, PhysicalMemoryMiB: 1<<63 - 1}
}

func compile(t *testing.T, source string) *MaxPodsProgram {
	t.Helper()
	p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
	require.NoError(t, err, source)
	return p
}

func TestExpressionsThatNeedTheSize(t *testing.T) {
	for source, want := range map[string]bool{
		"": false, "max_pods": false, "vcpu": false, "'vcpus' == 'vcpus' ? 1 : 2": false,
		"max_pods > 1 ? max_pods : 2 * vcpus": true, "[1].map(n, n * physical_memory_mib)[0]": true,
	} {
		assert.Equal(t, want, Kubelet{MaxPodsExpression: source}.AsksForSize(), source)
	}
}

// Expressions with a different result in languages whose integers wrap or whose logical
// operators are evaluated from the left only.
func TestArithmeticOfExpressions(t *testing.T) {
	for source, want := range map[string]int64{
		"1 + 2 * 3 - 4 / 2 % 3": 5, "24 / 4 / 2": 3, "-7 / 2": -3, "-7 % 2": -1, "7 % -2": 1, "5--5": 10, "---5": -5, "007": 7, "0x1F": 31,
		"-9223372036854775808": -1 << 63, "double(default_enis) * 2.5": 7, "-2.9": -2, "uint(5) / 2u": 2, "int(9223372036854774784.0)": 9223372036854774784,
		"1 / vcpus == 1 || true ? 1 : 2": 1, "1 / vcpus == 1 && false ? 1 : 2": 2, "true ? 1 : 1 / vcpus": 1, "false ? 1 : true ? 2 : 3": 2,
		"max_pods in [17, 18] ? 1 : 2": 1, "[1] in [[1], [2]] ? 1 : 2": 1, "size([1, 2, 3])": 3,
	} {
		got, err := compile(t, source).Pods(podValues())
		require.NoError(t, err, source)
		assert.Equal(t, want, got, source)
	}
	for source, want := range map[string]string{
		"max_pods / vcpus":                "line 1, column 10: division by zero",
		"max_pods % vcpus":                "line 1, column 10: modulus by zero",
		"1 +\n physical_memory_mib":       "line 1, column 3: integer overflow",
		"1u - 2u":                         "line 1, column 4: unsigned integer overflow",
		"-9223372036854775808 / -1":       "line 1, column 22: integer overflow",
		"1 / vcpus == 1 || false ? 1 : 2": "division by zero",
		"1.0 / 0.0":                       "converting its result: integer overflow",
		"max_pods > 3":                    "converting its result: type conversion error from 'bool' to 'int'",
		"'many'":                          "converting its result: type conversion error from 'string' to 'int'",
		"[17]":                            "converting its result: type conversion error from 'list(dyn)' to 'int'",
		"{'a': 1}['" + long(1000) + "']":  "no such key: aaa",
		"[1, 2].map(n, n / vcpus).size()": "line 1, column 11: division by zero",
		"timestamp('never').getSeconds()": "line 1, column 10: ",
	} {
		_, err := compile(t, source).Pods(podValues())
		require.ErrorContains(t, err, want, source)
		assert.Less(t, len(err.Error()), 1000)
	}
}

func long(n int) string { return strings.Repeat("a", n) }

func TestExpressionErrors(t *testing.T) {
	for source, want := range map[string]string{
		"pods + 1":            `compiling the expression "pods + 1": line 1, column 1: undeclared reference to 'pods'; the variables are default_enis, ips_per_eni, max_pods, vcpus, physical_memory_mib`,
		"max_pods * 2.0":      `compiling the expression "max_pods * 2.0": line 1, column 10: found no matching overload for '_*_' applied to '(int, double)'`,
		"max_pods\n+ '1'":     `compiling the expression "max_pods\n+ '1'": line 2, column 1: found no matching overload for '_+_' applied to '(int, string)'`,
		"math.least(1, 2)":    `line 1, column 1: undeclared reference to 'math'`,
		"9223372036854775808": `line 1, column 1: invalid int literal`,
		"max_pods +":          `line 1, column 11: Syntax error: `,
		"1 ? 2 : 3":           `line 1, column 3: found no matching overload for '_?_:_' applied to '(int, int, int)'`,
		long(1000) + " + 1":   `…: line 1, column 1: undeclared reference to 'aaa`,
		long(4097):            `compiling the expression: the expression has 4097 bytes, but at most 4096 are allowed`,
	} {
		_, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		require.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 1000)
		assert.NotContains(t, err.Error(), "\n")
	}
}

// longExpressions returns expressions of about n bytes that nest in every way of the
// grammar.
func longExpressions(n int) map[string]string {
	return map[string]string{
		"sum": "1" + strings.Repeat("+1", n/2), "logic": "true" + strings.Repeat("&&true", n/6), "conditions": strings.Repeat("true?1:", n/7) + "1",
		"parentheses": strings.Repeat("(", n), "lists": strings.Repeat("[", n), "signs": strings.Repeat("-", n) + "1", "calls": strings.Repeat("int(", n/4),
		"members": "max_pods" + strings.Repeat(".a", n/2), "indexes": strings.Repeat("[1", n/4) + strings.Repeat("][0]", n/8), "maps": strings.Repeat("{1:", n/3),
		"exclamations": strings.Repeat("!", n) + "true", "macros": strings.Repeat("[1].map(n, ", n/11),
	}
}

// Compiling and evaluating need limited stack, memory and time.
func TestExpressionsAreBounded(t *testing.T) {
	for name, source := range longExpressions(4000) {
		p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		if err == nil {
			_, err = p.Pods(podValues())
		}
		if err != nil {
			assert.Less(t, len(err.Error()), 1000, name)
		}
	}
	thousand := "[" + strings.Repeat("1,", 999) + "1]"
	for source, want := range map[string]string{
		thousand + ".all(a, " + "[1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, a+b+c+d > 0)))) ? 1 : 2": "actual cost limit exceeded",
		"['aaaaaaaaaaaaaaaa']" + strings.Repeat(".map(s, s+s)", 60) + "[0].size()":                                                         "actual cost limit exceeded",
	} {
		_, err := compile(t, source).Pods(podValues())
		assert.ErrorContains(t, err, want)
	}
}

// A comparison of deeply nested lists has no cost in cel-go and cannot be interrupted.
func TestEvaluationsEnd(t *testing.T) {
	p := compile(t, "[[1]]"+strings.Repeat(".map(l, [l, l])", 22)+".all(l, l == l) ? 1 : 2")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("no result in time"))
	defer cancel()
	_, err := p.pods(ctx, podValues())
	assert.EqualError(t, err, "no result in time")
}

func FuzzMaxPodsExpression(f *testing.F) {
	for _, source := range longExpressions(300) {
		f.Add(source)
	}
	for _, source := range []string{
		"((default_enis - 1) * (ips_per_eni - 1)) + 2", "max_pods < 30 ? max_pods : 30", "[3, 6].exists(n, n == default_enis) ? 1 : 2",
		"{'a': 1}['a']", "timestamp('2026-01-01T00:00:00Z').getSeconds()", "'a'.matches('(a+)+$') ? 1 : 2", "b'\\xff'", "has({}.a)", "\"\\u00e9\" + 1", "1e999",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := Kubelet{MaxPodsExpression: source}.CompileMaxPods()
		if err == nil && p != nil {
			_, err = p.Pods(podValues())
		}
		if err != nil {
			assert.Less(t, len(err.Error()), 2000)
			assert.NotContains(t, err.Error(), "\n", fmt.Sprintf("%q", source))
		}
	})
}
