package packercheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Secret stands in each text, and must not be in the result. What is marked «so» must be.
func TestARecordedTemplateHasNoSecrets(t *testing.T) {
	const secret, aws = "swordfish", "AKIA" + "Q3EGRZ7XKTWLPM2V"
	for name, text := range map[string]string{
		"a sensitive variable":       `variable "x" { «default» = "SECRET"; «sensitive» = true }`,
		"sensitive by a text":        `variable "x" { default = "SECRET"; sensitive = "true" }`,
		"sensitive by an expression": `variable "x" { default = { a = ["SECRET"] }; sensitive = !false }`,
		"a name of a variable":       `variable "db_password" { default = "SECRET" }`,
		"a local":                    `local "x" { expression = "SECRET"; sensitive = true }`,
		"locals":                     `locals { apiKey = "SECRET"; «size» = 8 }`,
		"a number":                   `locals { pin = 73519461 }`,
		"a field":                    `source "qemu" "a" { ssh_password = "SECRET"; «disk_size» = "8G" }`,
		"a field of two parts":       `source "qemu" "a" { ssh_password = "${var.a}SECRET" }`,
		"a choice":                   `source "qemu" "a" { ssh_password = var.a ? "SECRET" : "b" }`,
		"a key of an object":         `locals { x = { "client-secret" = "SECRET", «other» = "«y»" } }`,
		"an object's bare key":       `locals { x = { token : "SECRET" } }`,
		"in a call":                  `locals { x = jsonencode({ passwd = "SECRET" }) }`,
		"an environment":             `build { provisioner "shell" { environment_vars = ["A=«b»", "DB_PASSWORD=SECRET"] } }`,
		"a flag":                     `build { provisioner "shell" { inline = ["login --password SECRET"] } }`,
		"a user of curl":             `build { provisioner "shell" { inline = ["curl -u me:SECRET https://a", "«ls /»"] } }`,
		"a URL":                      `locals { x = "https://me:SECRET@example.com/a.iso" }`,
		"a header":                   `locals { x = "Authorization: Basic SECRET" }`,
		"a heredoc":                  "locals { \n x = <<-EOF\n  echo a\n  export API_KEY='SECRET'\n  EOF\n «y» = 1\n}",
		"a private key":              "locals {\n x = <<EOF\n-----BEGIN RSA PRIVATE KEY-----\nSECRET\n-----END RSA PRIVATE KEY-----\nEOF\n «y» = 2\n}",
		"JSON in a string":           `locals { x = "{\"password\": \"SECRET\"}" }`,
		"a comment":                  "# SECRET\nlocals { «x» = 1 // SECRET\n /* SECRET\n*/ «y» = 2 }",
		"a comment after a heredoc":  "locals {\n x = <<EOF\na «#» b\nEOF\n # SECRET\n}",
		"the same value elsewhere":   `variable "x" { default = "SECRET"; sensitive = true }; locals { «y» = "a SECRET b" }`,
		"elsewhere before":           `locals { y = "a SECRET b" }; variable "x" { default = "SECRET"; sensitive = true }`,
		"elsewhere in a command":     `variable "x" { default = "SECRET"; sensitive = true }; locals { y = "echo 'SECRET'|sudo -S id" }`,
		"in a longer word":           `locals { my_password = "alpine"; «iso_alpine_3» = "«alpinelinux»"; y = "a-alpine" }`,
		"of other characters":        `locals { my_password = "!SECRET!"; y = "a!SECRET!b" }`,
		"a form of a key":            `locals { y = "` + aws + `" }`,
		"a label":                    `source "qemu" "` + aws + `" { }`,
		"a key within a call":        `locals { y = base64encode("a ` + aws + `") }`,
		"nothing":                    `source "«amazon-ebs»" "a" { ssh_password = «var.password»; tags = { «Name» = "«node-${local.v}»" }; imds_support = "«v2.0»"; kms_key_id = "«alias/x»" }`,
		"a false one":                `variable "x" { default = "«shown»"; sensitive = false }`,
	} {
		t.Run(name, func(t *testing.T) {
			var kept []string
			for _, part := range strings.Split(text, "«")[1:] {
				kept = append(kept, strings.Split(part, "»")[0])
			}
			text = strings.NewReplacer("«", "", "»", "", "SECRET", secret, "{ ", "{\n", " }", "\n}", "; ", "\n").Replace(text)
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
