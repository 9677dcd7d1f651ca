package userdata

import (
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// verdicts are those of Amazon's nodeadm, and of first boot.
//
//go:embed testdata/nodeadm.tsv
var verdicts string

// Check gives the verdicts of Amazon's nodeadm and of first boot: user data that first
// boot does not read fails, and user data that only Amazon's does not read is a warning.
func TestVerdictsAboutFormsOfNodeConfigs(t *testing.T) {
	seen := map[string][]string{}
	for line := range strings.Lines(verdicts) {
		if fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); !strings.HasPrefix(line, "#") {
			seen[fields[2]] = fields[:2]
		}
	}
	forms := nodeConfigForms(t)
	require.Len(t, seen, len(forms), "forms have names of their own")
	yes := func(reads bool) string { return map[bool]string{true: "yes", false: "no"}[reads] }
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			require.Contains(t, seen, f.name)
			amazon, image := seen[f.name][0], seen[f.name][1]
			assert.Equal(t, amazon, yes(readByAmazon([]byte(f.text), true) == nil), "Amazon's image")
			config, _, err := nodeconfig.Parse([]byte(f.text))
			if err == nil {
				err = config.Validate()
			}
			assert.Equal(t, image, yes(err == nil), "this image: %v", err)
			report, err := Check([]byte(f.text), "")
			if image == "no" {
				assert.True(t, err != nil || report.Failed(), "first boot does not read the form, and the check passes")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "al2023", report.Family)
			require.Len(t, report.Readers, 2)
			assert.Equal(t, Reader{Image: ThisImage, Reads: true}, report.Readers[0])
			assert.Equal(t, amazon == "yes", report.Readers[1].Reads)
			refused := AmazonsImage + " does not read the user data: " + report.Readers[1].Reason
			assert.Equal(t, amazon == "no", slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.Warning && p.Text == refused }))
		})
	}
}

// form is user data with a NodeConfig in one of the forms in which people write it.
type form struct{ name, text string }

func utf16Of(text string, order binary.AppendByteOrder, mark bool) string {
	var b []byte
	if mark {
		text = "\ufeff" + text
	}
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

// folded is a text in lines of 76 characters.
func folded(text, lineEnd string) string {
	var lines []string
	for len(text) > 76 {
		lines, text = append(lines, text[:76]), text[76:]
	}
	return strings.Join(append(lines, text), lineEnd)
}

// nodeConfigForms enumerates encodings, MIME, YAML and JSON.
func nodeConfigForms(t *testing.T) []form {
	config := withAuthority(head + whole)
	compact, err := yaml.YAMLToJSON([]byte(config))
	require.NoError(t, err)
	var object any
	require.NoError(t, json.Unmarshal(compact, &object))
	indented, err := json.MarshalIndent(object, "", "  ")
	require.NoError(t, err)
	const part = "Content-Type: application/node.eks.aws\n"
	const shell = "Content-Type: text/x-shellscript\n\n#!/bin/sh\necho\n"
	whole := withAuthority(whole)
	mime := multi(part + "\n" + config)
	raw := strings.TrimRight(authority, "=")
	cluster := func(name, endpoint, ca, cidr string) string {
		return head + fmt.Sprintf("  cluster:\n    name: %s\n    apiServerEndpoint: %s\n    certificateAuthority: %s\n    cidr: %s\n", name, endpoint, ca, cidr)
	}
	with := func(ca string) string { return cluster("a", "https://a", ca, "10.0.0.0/16") }
	typed := func(field string) string { return config + "  " + field + "\n" }
	header := func(lines string) string { return lines + "\n--X\n" + part + "\n" + config + "--X--\n" }
	const version = "MIME-Version: 1.0\n"
	return []form{
		// Encodings.
		{"plain", config},
		{"byte-order mark", "\ufeff" + config},
		{"two byte-order marks", "\ufeff\ufeff" + config},
		{"UTF-16 LE, mark", utf16Of(config, binary.LittleEndian, true)},
		{"UTF-16 BE, mark", utf16Of(config, binary.BigEndian, true)},
		{"UTF-16 LE", utf16Of(config, binary.LittleEndian, false)},
		{"UTF-16 BE", utf16Of(config, binary.BigEndian, false)},
		{"UTF-16 LE JSON, mark", utf16Of(string(indented), binary.LittleEndian, true)},
		{"UTF-16 MIME", utf16Of(mime, binary.LittleEndian, true)},
		{"latin1 comment", "# \xfc\n" + config},
		{"CRLF", strings.ReplaceAll(config, "\n", "\r\n")},
		{"CR only", strings.ReplaceAll(config, "\n", "\r")},
		{"no newline at the end", strings.TrimRight(config, "\n")},
		{"NUL at the end", config + "\x00"},
		{"gzip", packed(t, config)},
		{"gzip, mark inside", packed(t, "\ufeff"+config)},
		{"gzip twice", packed(t, packed(t, config))},
		{"gzip of MIME", packed(t, mime)},
		{"gzip of base64", packed(t, inBase64(config))},
		{"gzip with a newline", packed(t, config) + "\n"},
		{"gzip cut off", packed(t, config)[:200]},
		{"gzip of UTF-16", packed(t, utf16Of(config, binary.LittleEndian, true))},
		{"base64", inBase64(config)},
		{"base64 with a newline", inBase64(config) + "\n"},
		{"base64 folded", folded(inBase64(config), "\n") + "\n"},
		{"base64 folded, CRLF", folded(inBase64(config), "\r\n") + "\r\n"},
		{"base64 folded and indented", folded(inBase64(config), "\n  ")},
		{"base64 unpadded", strings.TrimRight(inBase64(config+"#"), "=")},
		{"base64 with surplus padding", inBase64(config+"##") + "="},
		{"base64 twice", inBase64(inBase64(config))},
		{"base64 of gzip", inBase64(packed(t, config))},
		{"base64 of MIME", inBase64(mime)},
		{"base64 of UTF-16", inBase64(utf16Of(config, binary.LittleEndian, true))},
		{"URL-safe base64", strings.NewReplacer("+", "-", "/", "_").Replace(inBase64(config + "#???>>>"))},
		{"blank lines above", "\n\n" + config},
		{"spaces above", "   \n" + config},
		{"a tab above", "\t\n" + config},
		{"indented", "  " + strings.ReplaceAll(strings.TrimRight(config, "\n"), "\n", "\n  ") + "\n"},
		{"indented by tabs", "\t" + strings.ReplaceAll(strings.TrimRight(config, "\n"), "\n", "\n\t") + "\n"},
		// First lines.
		{"a comment above", "# mine\n" + config},
		{"#cloud-config above", "#cloud-config\n" + config},
		{"#cloud-config and a blank line", "#cloud-config\n\n" + config},
		{"#cloud-boothook above", "#cloud-boothook\n" + config},
		{"#cloud-config, CRLF", strings.ReplaceAll("#cloud-config\n"+config, "\n", "\r\n")},
		{"#cloud-config in gzip", packed(t, "#cloud-config\n"+config)},
		{"#cloud-config with a mark", "\ufeff#cloud-config\n" + config},
		{"#include above", "#include\n" + config},
		{"## template above", "## template: jinja\n" + config},
		{"#!nodeconfig above", "#!nodeconfig\n" + config},
		{"#!/bin/bash above", "#!/bin/bash\n" + config},
		{"<powershell> above", "<powershell>\n" + config},
		{"#cloud-config and JSON", "#cloud-config\n" + string(indented)},
		{"%YAML 1.2", "%YAML 1.2\n---\n" + config},
		{"%YAML 1.1", "%YAML 1.1\n---\n" + config},
		// Documents.
		{"--- above", "---\n" + config},
		{"--- and a comment above", "--- # mine\n" + config},
		{"... below", config + "...\n"},
		{"--- below", config + "---\n"},
		{"an empty first document", "---\n---\n" + config},
		{"a comment as first document", "---\n# nothing\n---\n" + config},
		{"null as first document", "null\n---\n" + config},
		{"another first document", "a: b\n---\n" + config},
		{"a second NodeConfig", config + "---\n" + head + "  kubelet: {flags: [--v=2]}\n"},
		{"a second document of another kind", config + "---\nkind: Other\n"},
		{"a second document that is no YAML", config + "---\na: [\n"},
		{"only a comment", "# nothing\n"},
		{"nothing", ""},
		{"blank", " \n\n"},
		{"a list", "- " + strings.ReplaceAll(strings.TrimRight(config, "\n"), "\n", "\n  ") + "\n"},
		{"text", "hello\n"},
		// Identity.
		{"version v1", strings.Replace(config, "v1alpha1", "v1", 1)},
		{"no version", strings.Replace(config, "/v1alpha1", "", 1)},
		{"another group", strings.Replace(config, "node.eks.aws", "eks.aws", 1)},
		{"no apiVersion", strings.TrimPrefix(config, "apiVersion: node.eks.aws/v1alpha1\n")},
		{"no kind", strings.Replace(config, "kind: NodeConfig\n", "", 1)},
		{"kind in lower case", strings.Replace(config, "NodeConfig", "nodeconfig", 1)},
		{"NodeConfigList", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfigList\nitems: []\n"},
		{"kind first", "kind: NodeConfig\napiVersion: node.eks.aws/v1alpha1\nspec:\n" + whole},
		{"keys in quotes", `"apiVersion": "node.eks.aws/v1alpha1"` + "\n'kind': 'NodeConfig'\nspec:\n" + whole},
		{"space before the colon", strings.Replace(strings.Replace(config, "apiVersion:", "apiVersion :", 1), "kind:", "kind :", 1)},
		{"identity last", "spec:\n" + whole + "kind: NodeConfig\napiVersion: node.eks.aws/v1alpha1\n"},
		{"ApiVersion", strings.Replace(config, "apiVersion", "ApiVersion", 1)},
		{"the old domain", strings.Replace(config, "node.eks.aws", "node.eks.amazonaws.com", 1)},
		{"a folded apiVersion", strings.Replace(config, "apiVersion: node", "apiVersion:\n  node", 1)},
		{"a tagged apiVersion", strings.Replace(config, "apiVersion: node", "apiVersion: !!str node", 1)},
		{"a block apiVersion", strings.Replace(config, "apiVersion: node.eks.aws/v1alpha1", "apiVersion: |\n  node.eks.aws/v1alpha1", 1)},
		{"a stripped block apiVersion", strings.Replace(config, "apiVersion: node.eks.aws/v1alpha1", "apiVersion: >-\n  node.eks.aws/v1alpha1", 1)},
		// JSON.
		{"JSON", string(compact)},
		{"indented JSON", string(indented)},
		{"JSON, mark", "\ufeff" + string(compact)},
		{"JSON, blank lines above", "\n\n" + string(indented)},
		{"JSON, text below", string(compact) + "\nhello\n"},
		{"JSON, a second object", string(compact) + "\n" + string(compact)},
		{"JSON, trailing comma", strings.Replace(string(compact), "}}}", "}},}", 1)},
		{"JSON, comment above", "# mine\n" + string(indented)},
		{"JSON, comment within", strings.Replace(string(indented), "{\n", "{\n  # mine\n", 1)},
		{"JSON, // comment", strings.Replace(string(indented), "{\n", "{\n  // mine\n", 1)},
		{"JSON, single quotes", strings.ReplaceAll(string(compact), `"`, `'`)},
		{"JSON, keys without quotes", strings.Replace(string(compact), `"kind"`, `kind`, 1)},
		{"JSON, duplicate key", strings.Replace(string(compact), `"kind"`, `"kind":"NodeConfig","kind"`, 1)},
		{"JSON, tabs", strings.ReplaceAll(string(indented), "  ", "\t")},
		{"JSON, CRLF", strings.ReplaceAll(string(indented), "\n", "\r\n")},
		{"JSON, escaped slash", strings.ReplaceAll(string(compact), "aws/", `aws\/`)},
		{"JSON, --- above", "---\n" + string(compact)},
		{"JSON in gzip", packed(t, string(compact))},
		{"JSON in a part", multi(part + "\n" + string(indented) + "\n")},
		{"a JSON list", "[" + string(compact) + "]"},
		{"flow YAML", "{apiVersion: node.eks.aws/v1alpha1, kind: NodeConfig, spec: {cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " + authority + ", cidr: 10.0.0.0/16}}}\n"},
		// YAML.
		{"an anchor", head + "  x: &x a\n" + whole},
		{"anchor and alias", strings.Replace(config, "name: a", "name: &n a", 1) + "  kubelet: {flags: [*n]}\n"},
		{"a merge key", head + "  cluster: &c {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " + authority + "}\n  instance:\n    environment: {default: {A: b}}\n" + "  kubelet: {config: {<<: {maxPods: 10}}}\n"},
		{"an alias of nothing", strings.Replace(config, "name: a", "name: *n", 1)},
		{"a key twice", config + "kind: NodeConfig\n"},
		{"an unknown field", config + "other: 1\n"},
		{"an unknown field in the spec", typed("other: 1")},
		{"Spec", strings.Replace(config, "spec:", "Spec:", 1)},
		{"Cluster", strings.Replace(config, "cluster:", "Cluster:", 1)},
		{"metadata", config + "metadata: {name: a}\n"},
		{"metadata with a number", config + "metadata: {name: 1}\n"},
		{"metadata with labels", config + "metadata: {labels: {a: b}}\n"},
		{"status", config + "status: {}\n"},
		{"spec null", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"},
		{"no spec", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"},
		{"a name that is a number", cluster("123", "https://a", authority, "10.0.0.0/16")},
		{"a name that is yes", cluster("yes", "https://a", authority, "10.0.0.0/16")},
		{"a name that is a date", cluster("2024-01-01", "https://a", authority, "10.0.0.0/16")},
		{"a name that is 1e3", cluster("1e3", "https://a", authority, "10.0.0.0/16")},
		{"a name that is y", cluster("y", "https://a", authority, "10.0.0.0/16")},
		{"an empty name", cluster("", "https://a", authority, "10.0.0.0/16")},
		{"a block name", cluster("|\n      a", "https://a", authority, "10.0.0.0/16")},
		{"flags as text", typed("kubelet: {flags: --v=2}")},
		{"a flag that is a number", typed("kubelet: {flags: [1]}")},
		{"a variable that is a number", typed("instance: {environment: {default: {A: 1}}}")},
		{"a variable that is yes", typed("instance: {environment: {default: {A: yes}}}")},
		{"a variable that is null", typed("instance: {environment: {default: {A: null}}}")},
		{"a gate as text", typed("featureGates: {FastImagePull: 'true'}")},
		{"a gate that is yes", typed("featureGates: {FastImagePull: yes}")},
		{"an unknown gate", typed("featureGates: {Foo: true}")},
		{"outpost as text", strings.Replace(config, "{name: a", "{enableOutpost: 'false', name: a", 1)},
		{"containerd config as object", typed("containerd: {config: {a: 1}}")},
		{"kubelet config as text", typed("kubelet: {config: 'a: 1'}")},
		{"kubelet config as list", typed("kubelet: {config: [1]}")},
		{"kubelet null", typed("kubelet: null")},
		{"kubelet as text", typed("kubelet: a")},
		{"max pods as number", typed("kubelet: {maxPodsExpression: 10}")},
		{"an unknown strategy", typed("instance: {localStorage: {strategy: raid5}}")},
		{"strategy in lower case", typed("instance: {localStorage: {strategy: raid0}}")},
		{"mounts as text", typed("instance: {localStorage: {disabledMounts: PodLogs}}")},
		{"a non-printing character", config + "# \x01\n"},
		// The certificate authority.
		{"CA in quotes", with(`"` + authority + `"`)},
		{"CA as block", with("|\n      " + folded(authority, "\n      "))},
		{"CA as folded block", with(">\n      " + folded(authority, "\n      "))},
		{"CA as stripped block", with(">-\n      " + authority)},
		{"CA over lines", with(folded(authority, "\n      "))},
		{"CA over lines in quotes", with(`"` + folded(authority, "\n      ") + `"`)},
		{"CA with escaped newlines", with(`"` + folded(authority, `\n`) + `"`)},
		{"CA unpadded", with(raw)},
		{"CA with surplus padding", with(raw + "====")},
		{"CA with a space", with(`"` + authority[:40] + " " + authority[40:] + `"`)},
		{"CA with spaces around", with(`" ` + authority + ` "`)},
		{"CA URL-safe", with(strings.NewReplacer("+", "-", "/", "_").Replace(inBase64("???>>>")))},
		{"CA as PEM", with("|\n      -----BEGIN CERTIFICATE-----\n      YQ==\n      -----END CERTIFICATE-----")},
		{"CA !!binary", with("!!binary " + authority)},
		{"CA null", with("null")},
		{"CA empty", with(`""`)},
		{"CA as number", with("1234")},
		// MIME as a whole.
		{"MIME", mime},
		{"MIME, CRLF", strings.ReplaceAll(mime, "\n", "\r\n")},
		{"MIME, mark", "\ufeff" + mime},
		{"MIME, blank line above", "\n" + mime},
		{"MIME, space above", " " + mime},
		{"MIME in base64", inBase64(mime)},
		{"no MIME-Version", strings.TrimPrefix(mime, version)},
		{"Content-Type first", header("Content-Type: multipart/mixed; boundary=\"X\"\nMIME-Version: 1.0\n")},
		{"lower case", header("mime-version: 1.0\ncontent-type: multipart/mixed; boundary=X\n")},
		{"upper case", header("MIME-VERSION: 1.0\nCONTENT-TYPE: MULTIPART/MIXED; BOUNDARY=X\n")},
		{"MIME-Version 2.0", header("MIME-Version: 2.0\nContent-Type: multipart/mixed; boundary=X\n")},
		{"another header", header("Subject: a\n" + version + "Content-Type: multipart/mixed; boundary=X\n")},
		{"From line", header("From nobody Mon Jan  1 00:00:00 2024\n" + version + "Content-Type: multipart/mixed; boundary=X\n")},
		{"a header with a space", header("My Header: a\n" + version + "Content-Type: multipart/mixed; boundary=X\n")},
		{"a line that is no header", header(version + "hello\nContent-Type: multipart/mixed; boundary=X\n")},
		{"a comment in the header", header("# mine\n" + version + "Content-Type: multipart/mixed; boundary=X\n")},
		{"Content-Transfer-Encoding above", header(version + "Content-Transfer-Encoding: 7bit\nContent-Type: multipart/mixed; boundary=X\n")},
		{"folded header", header(version + "Content-Type: multipart/mixed;\n boundary=X\n")},
		{"folded header, tab", header(version + "Content-Type: multipart/mixed;\n\tboundary=\"X\"\n")},
		{"no space after the colon", header("MIME-Version:1.0\nContent-Type:multipart/mixed;boundary=X\n")},
		{"space before the header's colon", header(version + "Content-Type : multipart/mixed; boundary=X\n")},
		{"multipart/alternative", header(version + "Content-Type: multipart/alternative; boundary=X\n")},
		{"multipart/", header(version + "Content-Type: multipart/; boundary=X\n")},
		{"multipart without subtype", header(version + "Content-Type: multipart; boundary=X\n")},
		{"no boundary", header(version + "Content-Type: multipart/mixed\n")},
		{"empty boundary", header(version + "Content-Type: multipart/mixed; boundary=\"\"\n")},
		{"single quotes", header(version + "Content-Type: multipart/mixed; boundary='X'\n")},
		{"a semicolon at the end", header(version + "Content-Type: multipart/mixed; boundary=X;\n")},
		{"charset", header(version + "Content-Type: multipart/mixed; charset=utf-8; boundary=X\n")},
		{"boundary twice", header(version + "Content-Type: multipart/mixed; boundary=X; boundary=X\n")},
		{"a bad parameter", header(version + "Content-Type: multipart/mixed; foo; boundary=X\n")},
		{"a parameter with spaces", header(version + "Content-Type: multipart/mixed; boundary = X\n")},
		{"Content-Type twice", header(version + "Content-Type: multipart/mixed; boundary=X\nContent-Type: multipart/mixed; boundary=Y\n")},
		{"boundary=// quoted", strings.NewReplacer(`"X"`, `"//"`, "--X--", "--//--", "--X", "--//").Replace(mime)},
		{"boundary=//", strings.NewReplacer(`"X"`, `//`, "--X--", "--//--", "--X", "--//").Replace(mime)},
		{"boundary with =", strings.NewReplacer(`"X"`, `==X==`, "--X--", "--==X==--", "--X", "--==X==").Replace(mime)},
		{"boundary with = quoted", strings.NewReplacer(`"X"`, `"==X=="`, "--X--", "--==X==--", "--X", "--==X==").Replace(mime)},
		{"boundary with a space", strings.NewReplacer(`"X"`, `"a b"`, "--X--", "--a b--", "--X", "--a b").Replace(mime)},
		{"boundary in another case", strings.Replace(mime, `"X"`, `"x"`, 1)},
		{"no empty line before the first boundary", strings.Replace(mime, "\n\n--X\n", "\n--X\n", 1)},
		{"spaces on the empty line", strings.Replace(mime, "\n\n--X\n", "\n  \n--X\n", 1)},
		{"a preamble", strings.Replace(mime, "\n\n--X\n", "\n\nThis is MIME\n--X\n", 1)},
		{"an epilogue", mime + "the end\n"},
		{"blank lines at the end", mime + "\n\n"},
		{"no newline after the end", strings.TrimRight(mime, "\n")},
		{"no end", strings.TrimSuffix(mime, "--X--\n")},
		{"a boundary as end", strings.TrimSuffix(mime, "--\n") + "\n"},
		{"a spoilt end", strings.TrimSuffix(mime, "\n") + "\\\n"},
		{"spaces after the boundaries", strings.ReplaceAll(mime, "--X\n", "--X  \n")},
		{"an indented boundary", strings.ReplaceAll(mime, "\n--X", "\n  --X")},
		{"text after the boundary", strings.Replace(mime, "--X\n", "--X y\n", 1)},
		{"wrong boundary in the parts", strings.ReplaceAll(mime, "--X", "--Y")},
		{"a part after the end", strings.TrimSuffix(multi(shell), "\n") + "\n--X\n" + part + "\n" + config + "--X--\n"},
		{"no parts", version + "Content-Type: multipart/mixed; boundary=X\n\n--X--\n"},
		{"nothing below", version + "Content-Type: multipart/mixed; boundary=X\n\n"},
		{"only a header", version + "Content-Type: multipart/mixed; boundary=X\n"},
		{"mixed ends of lines", strings.Replace(mime, "\n", "\r\n", 2)},
		{"MIME without parts", version + "Content-Type: application/node.eks.aws\n\n" + config},
		{"MIME without parts, text", version + "Content-Type: text/plain\n\n" + config},
		{"MIME without parts, base64", version + "Content-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64\n\n" + inBase64(config) + "\n"},
		{"only Content-Type", part + "\n" + config},
		{"MIME of scripts", multi(shell)},
		// Parts.
		{"a script before", multi(shell, part+"\n"+config)},
		{"a script after", multi(part+"\n"+config, shell)},
		{"a part without header", multi("\nhello\n", part+"\n"+config)},
		{"an empty part without header", multi("\n", part+"\n"+config)},
		{"two NodeConfigs", multi(part+"\n"+config, part+"\n"+head+"  kubelet: {flags: [--v=2]}\n")},
		{"two NodeConfigs, the second broken", multi(part+"\n"+config, part+"\nhello\n")},
		{"an empty NodeConfig, then one", multi(part+"\n", part+"\n"+config)},
		{"one, then an empty NodeConfig", multi(part+"\n"+config, part+"\n")},
		{"a blank NodeConfig, then one", multi(part+"\n\n \n", part+"\n"+config)},
		{"only an empty NodeConfig", multi(part + "\n")},
		{"only a comment in the part", multi(part + "\n# nothing\n")},
		{"only an empty NodeConfig and a script", multi(part+"\n", shell)},
		{"no empty line in the part", multi(part + config)},
		{"no empty line in a script", multi("Content-Type: text/x-shellscript\n#!/bin/sh\necho\n", part+"\n"+config)},
		{"the type in upper case", multi("Content-Type: APPLICATION/NODE.EKS.AWS\n\n" + config)},
		{"the header in lower case", multi("content-type: application/node.eks.aws\n\n" + config)},
		{"a charset in the part", multi("Content-Type: application/node.eks.aws; charset=\"us-ascii\"\n\n" + config)},
		{"charset latin1", multi("Content-Type: application/node.eks.aws; charset=iso-8859-1\n\n# \xfc\n" + config)},
		{"a bad parameter in the part", multi("Content-Type: application/node.eks.aws; foo\n\n" + config)},
		{"a bad value in the part", multi("Content-Type: application/node.eks.aws; charset=utf 8\n\n" + config)},
		{"a semicolon in the part", multi("Content-Type: application/node.eks.aws;\n\n" + config)},
		{"a bad parameter in a script", multi("Content-Type: text/x-shellscript; foo\n\n#!/bin/sh\n", part+"\n"+config)},
		{"a bad type of a script", multi("Content-Type: text x-shellscript\n\n#!/bin/sh\n", part+"\n"+config)},
		{"a type without slash", multi("Content-Type: script\n\n#!/bin/sh\n", part+"\n"+config)},
		{"the type in quotes", multi("Content-Type: \"application/node.eks.aws\"\n\n" + config)},
		{"application/yaml", multi("Content-Type: application/yaml\n\n" + config)},
		{"node.eks.aws/v1alpha1 as type", multi("Content-Type: application/node.eks.aws/v1alpha1\n\n" + config)},
		{"text/plain", multi("Content-Type: text/plain\n\n" + config)},
		{"a name in the part", multi("Content-Type: application/node.eks.aws\nContent-Disposition: attachment; filename=\"a.yaml\"\nMIME-Version: 1.0\n\n" + config)},
		{"Content-Type last in the part", multi("MIME-Version: 1.0\nContent-Type: application/node.eks.aws\n\n" + config)},
		{"a folded header in the part", multi("Content-Type: application/node.eks.aws;\n charset=utf-8\n\n" + config)},
		{"a bad header in the part", multi("hello\n" + part + "\n" + config)},
		{"7bit", multi(part + "Content-Transfer-Encoding: 7bit\n\n" + config)},
		{"8bit", multi(part + "Content-Transfer-Encoding: 8bit\n\n" + config)},
		{"an unknown encoding", multi(part + "Content-Transfer-Encoding: rot13\n\n" + config)},
		{"base64 encoding", multi(part + "Content-Transfer-Encoding: base64\n\n" + inBase64(config) + "\n")},
		{"base64 encoding, folded", multi(part + "Content-Transfer-Encoding: base64\n\n" + folded(inBase64(config), "\n") + "\n")},
		{"base64 encoding, indented", multi(part + "Content-Transfer-Encoding: base64\n\n  " + inBase64(config) + "\n")},
		{"base64 encoding, unpadded", multi(part + "Content-Transfer-Encoding: base64\n\n" + strings.TrimRight(inBase64(config+"#"), "=") + "\n")},
		{"base64 encoding in upper case", multi(part + "Content-Transfer-Encoding: BASE64\n\n" + inBase64(config) + "\n")},
		{"base64 encoding of gzip", multi(part + "Content-Transfer-Encoding: base64\n\n" + inBase64(packed(t, config)) + "\n")},
		{"base64 encoding of base64", multi(part + "Content-Transfer-Encoding: base64\n\n" + inBase64(inBase64(config)) + "\n")},
		{"base64 encoding of plain text", multi(part + "Content-Transfer-Encoding: base64\n\n" + config)},
		{"base64 without encoding", multi(part + "\n" + inBase64(config) + "\n")},
		{"base64 folded without encoding", multi(part + "\n" + folded(inBase64(config), "\n") + "\n")},
		{"base64 unpadded without encoding", multi(part + "\n" + strings.TrimRight(inBase64(config+"#"), "=") + "\n")},
		{"gzip in a part", multi(part + "\n" + packed(t, config) + "\n")},
		{"base64 of gzip in a part", multi(part + "\n" + inBase64(packed(t, config)) + "\n")},
		{"quoted-printable", multi(part + "Content-Transfer-Encoding: quoted-printable\n\n" + strings.ReplaceAll(config, "=", "=3D"))},
		{"quoted-printable, bare =", multi(part + "Content-Transfer-Encoding: quoted-printable\n\n" + config)},
		{"quoted-printable, soft breaks", multi(part + "Content-Transfer-Encoding: Quoted-Printable\n\n" + strings.Replace(strings.ReplaceAll(config, "=", "=3D"), "name", "na=\nme", 1))},
		{"a mark in the part", multi(part + "\n\ufeff" + config)},
		{"UTF-16 in the part", multi(part + "\n" + utf16Of(config, binary.BigEndian, true))},
		{"UTF-16 in base64 in the part", multi(part + "\n" + inBase64(utf16Of(config, binary.LittleEndian, true)) + "\n")},
		{"#cloud-config in the part", multi(part + "\n#cloud-config\n" + config)},
		{"an empty first document in the part", multi(part + "\n---\n---\n" + config)},
		{"indented in the part", multi(part + "\n  " + strings.ReplaceAll(strings.TrimRight(config, "\n"), "\n", "\n  ") + "\n")},
		{"MIME in the part", multi(part + "\n" + strings.ReplaceAll(mime, "X", "Y"))},
		{"nested multipart", multi("Content-Type: multipart/mixed; boundary=Y\n\n--Y\n" + part + "\n" + config + "--Y--\n")},
		{"nested multipart beside one", multi("Content-Type: multipart/mixed; boundary=Y\n\n--Y\n"+shell+"--Y--\n", part+"\n"+config)},
		{"nested NodeConfig beside one", multi("Content-Type: multipart/mixed; boundary=Y\n\n--Y\n"+part+"\n"+config+"--Y--\n", part+"\n"+config)},
		{"message/rfc822", multi("Content-Type: message/rfc822\n\n" + strings.ReplaceAll(mime, "X", "Y"))},
	}
}
