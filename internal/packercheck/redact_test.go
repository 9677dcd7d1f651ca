package packercheck

import (
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARecordedTemplateHasNoSecrets(t *testing.T) {
	const secret, aws = "swordfish", "AKIA" + "Q3EGRZ7XKTWLPM2V"
	templates, err := txtar.ParseFile("testdata/secrets.txtar")
	require.NoError(t, err)
	for _, f := range templates.Files {
		text := string(f.Data)
		t.Run(f.Name, func(t *testing.T) {
			var kept []string
			for _, part := range strings.Split(text, "«")[1:] {
				kept = append(kept, strings.Split(part, "»")[0])
			}
			text = strings.NewReplacer("«", "", "»", "", "SECRET", secret, "AWSKEY", aws,
				"{ ", "{\n", " }", "\n}", "; ", "\n").Replace(text)
			out, err := Redacted(File{Name: "a.pkr.hcl", Text: []byte(text)})
			require.NoError(t, err)
			for _, bad := range []string{secret, aws, "73519461"} {
				assert.NotContains(t, out, bad)
			}
			for _, part := range kept {
				assert.Contains(t, out, part)
			}
			again, err := Redacted(File{Name: "a.pkr.hcl", Text: []byte(out)})
			require.NoError(t, err, out)
			assert.Equal(t, out, again)
		})
	}
	for name, text := range map[string]string{"a.pkrvars.hcl": `x = "y"`, "a.pkr.json": "{}", "a.pkr.hcl": `x = "`} {
		_, err := Redacted(File{Name: name, Text: []byte(text)})
		require.ErrorContains(t, err, name)
	}
}
