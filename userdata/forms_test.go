package userdata

import (
	"encoding/binary"
	"encoding/json"
	"strings"
	"testing"
	"text/template"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	jyaml "sigs.k8s.io/yaml"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// form is user data with a NodeConfig, and whether Amazon's image and this image read it.
type form struct {
	Name, Text    string
	Amazon, Image bool
}

func utf16Of(order binary.AppendByteOrder) func(text string) string {
	return func(text string) string {
		var b []byte
		for _, unit := range utf16.Encode([]rune(text)) {
			b = order.AppendUint16(b, unit)
		}
		return string(b)
	}
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
		"utf16le": utf16Of(binary.LittleEndian), "utf16be": utf16Of(binary.BigEndian),
		"unpadded": func(text string) string { return strings.TrimRight(text, "=") },
		"urlsafe":  strings.NewReplacer("+", "-", "/", "_").Replace,
		"filled":   filled, "nested": nested, "numbered": numbered, "doubling": doubling, "archiveIn": archiveIn,
		"aliases": aliases, "aliasLists": aliasLists,
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
