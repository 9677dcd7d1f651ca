package userdata

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	jyaml "sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const (
	script = "#!/bin/bash -xe\n"
	head   = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n"
	whole  = "  cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: YQ==, cidr: 10.0.0.0/16}\n"
	class  = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec:\n  role: r\n  subnetSelectorTerms: [{id: a}]\n  securityGroupSelectorTerms: [{id: a}]\n  amiSelectorTerms: [{id: a}]\n"
)

func multi(parts ...string) string {
	return "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"X\"\n\n--X\n" + strings.Join(parts, "--X\n") + "--X--\n"
}

// The samples are user data with all problems that the check finds, each with its line and
// field. In samples, YQ== means a certificate authority.
func TestSamples(t *testing.T) {
	for _, file := range testkit.Glob(t, "testdata/samples/*.yaml") {
		var samples []struct {
			Name, Family, Text string
			Problems           []string
		}
		require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, file)), &samples))
		for _, s := range samples {
			t.Run(filepath.Base(file)+"/"+s.Name, func(t *testing.T) {
				assert.Equal(t, strings.Join(s.Problems, "|"), said(t, s.Text, s.Family))
			})
		}
	}
	part := "Content-Type: application/node.eks.aws\n\n" + packed(withAuthority(head+whole)) + "\n"
	latin1 := "Content-Type: text/x-shellscript; charset=iso-8859-1\n\n" + script + "echo \xfc\n" + call
	for _, text := range []string{multi(part), multi(latin1)} { // neither is UTF-8
		assert.Empty(t, said(t, text, ""))
	}
}

// The example in AWS's documentation has a part after the end of the message.
func TestPartAfterTheEndOfAWSsExample(t *testing.T) {
	text := testkit.Content(t, "../bootstrap/nodeconfig/testdata/example.mime")
	r := checked(t, []byte(text), "")
	require.Len(t, r.Problems, 2)
	assert.Equal(t, "14: spec.cluster.certificateAuthority: it holds no PEM certificate; use certificateAuthority.data of `aws eks describe-cluster` as it is", r.Problems[0].String())
	assert.Contains(t, r.Problems[1].String(), "which in line 17 ended the last; no program reads the part")
	assert.True(t, r.Failed())
}

func packed(text string) string { return string(testkit.Gzip(text)) }

func inBase64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

const call = "/etc/eks/bootstrap.sh c\n"

// EKS and Karpenter merge this user data with their own.
func TestMergedUserDataMayBeIncomplete(t *testing.T) {
	for name, c := range map[string]struct{ family, text string }{
		"a script":     {"", script + "echo\n"},
		"MIME":         {"", multi("Content-Type: text/x-shellscript\n\n" + script + "echo\n")},
		"NodeConfig":   {"", multi("Content-Type: application/node.eks.aws\n\n" + head + "  kubelet: {config: {maxPods: 10}}\n")},
		"Bottlerocket": {"", "[settings.kernel]\nlockdown = 'integrity'\n"},
		"PowerShell":   {"windows", "Write-Host 'a'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := CheckMerged([]byte(c.text), c.family)
			require.NoError(t, err)
			assert.Empty(t, r.Problems)
			assert.True(t, checked(t, []byte(c.text), c.family).Failed(), "without merging, the machine must not pass")
		})
	}
}

// form is user data with a NodeConfig, and whether Amazon's image and this image read it.
type form struct {
	Name, Text    string
	Amazon, Image bool
}

// folded is a text in lines of 76 characters.
func folded(lineEnd, text string) string {
	var lines []string
	for len(text) > 76 {
		lines, text = append(lines, text[:76]), text[76:]
	}
	return strings.Join(append(lines, text), lineEnd)
}

// fill is the text of a template in testdata.
func fill(t testing.TB, text string, words map[string]any) string {
	t.Helper()
	functions := template.FuncMap{
		"gzip": packed, "base64": inBase64, "zipped": func(text string) string { return inBase64(packed(text)) },
		"folded": folded, "replace": strings.ReplaceAll, "trim": strings.TrimSuffix, "repeat": strings.Repeat,
		"utf16le":  func(text string) string { return testkit.UTF16(binary.LittleEndian, text) },
		"utf16be":  func(text string) string { return testkit.UTF16(binary.BigEndian, text) },
		"unpadded": func(text string) string { return strings.TrimRight(text, "=") },
		"urlsafe":  strings.NewReplacer("+", "-", "/", "_").Replace,
		"filled":   filled, "nested": nested, "numbered": numbered, "doubling": doubling, "archiveIn": archiveIn,
		"aliases": aliases,
	}
	parsed, err := template.New("").Delims("<%", "%>").Funcs(functions).Parse(text)
	require.NoError(t, err, text)
	var out strings.Builder
	require.NoError(t, parsed.Execute(&out, words), text)
	return out.String()
}

// nodeConfigForms are those of the file, with their texts.
func nodeConfigForms(t *testing.T) []form {
	config := withAuthority(head + whole)
	compact, err := jyaml.YAMLToJSON([]byte(config))
	require.NoError(t, err)
	indented, err := json.MarshalIndent(testkit.JSON[any](t, compact), "", "  ")
	require.NoError(t, err)
	words := map[string]any{
		"config": config, "whole": withAuthority(whole), "compact": string(compact), "indented": string(indented),
		"mime": multi("Content-Type: application/node.eks.aws\n\n" + config), "ca": authority,
	}
	var forms []form
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/forms.yaml")), &forms))
	for i, f := range forms {
		forms[i].Text = fill(t, f.Text, words)
	}
	return forms
}
