//go:build linux

package scrub

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
)

// variants are files with secrets, as programs and people leave them on machines: the forms are
// those of the programs' own documentation. testdata/variants.json has {f:8} and the like for the
// secret parts, so that scanners do not report the file.
func variants(t *testing.T) map[string]string {
	t.Helper()
	text := []byte(testkit.Content(t, "testdata/variants.json"))
	forms := testkit.JSON[map[string]string](t, text)
	const pass = "S3" + "cure" + "Pw9x"
	words := strings.NewReplacer("{pass}", pass, "{-}", "-----", "{jwt}", "ey"+"JhbGciOiJSUzI1NiJ9.ey"+"JzdWIiOiJzeXN0ZW0ifQ."+fill(60))
	for name, form := range forms {
		forms[name] = words.Replace(regexp.MustCompile(`\{[fFhH]:\d+\}`).ReplaceAllStringFunc(form, func(blank string) string {
			n, _ := strconv.Atoi(blank[3 : len(blank)-1])
			part := fill(n)
			if strings.ContainsAny(blank[1:2], "hH") {
				part = strings.Repeat("0a1b2c3d", n/8+1)[:n]
			}
			if strings.ContainsAny(blank[1:2], "FH") {
				part = strings.ToUpper(part)
			}
			return part
		}))
	}
	forms["var/lib/jenkins/.docker/config.json"] = "{\n\t\"auths\": {\n\t\t\"1.dkr.ecr.eu-west-1.amazonaws.com\": {\n\t\t\t\"auth\": \"" +
		base64.StdEncoding.EncodeToString([]byte("AWS:eyJwYXlsb2FkIjoi"+fill(200))) + "\"\n\t\t}\n\t}\n}"
	forms["opt/secret.yaml"] = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n  password: " + base64.StdEncoding.EncodeToString([]byte(pass)) + "\n"
	return forms
}

// encodings are ways to store a text, by the end of the file's name.
func encodings(t *testing.T) map[string]func(string) []byte {
	t.Helper()
	return map[string]func(string) []byte{
		"gz": testkit.Gzip[string],
		"xz": func(s string) []byte { return testkit.Packed(t, xz.NewWriter, s) },
		"zst": func(s string) []byte {
			return testkit.Packed(t, func(w io.Writer) (*zstd.Encoder, error) { return zstd.NewWriter(w) }, s)
		},
		"tar":     func(s string) []byte { return testkit.Tar(0o600, "etc/x.env", s) },
		"zip":     func(s string) []byte { return testkit.Zip(t, "etc/x.env", s) },
		"utf16le": func(s string) []byte { return []byte(testkit.UTF16(binary.LittleEndian, "\ufeff"+s)) },
		"utf16be": func(s string) []byte { return []byte(testkit.UTF16(binary.BigEndian, "\ufeff"+s)) },
		"utf16":   func(s string) []byte { return []byte(testkit.UTF16(binary.LittleEndian, s)) },
		"b64": func(s string) []byte {
			return []byte("user-data: " + base64.StdEncoding.EncodeToString([]byte(s)) + "\n")
		},
		"b64url": func(s string) []byte { return []byte(base64.RawURLEncoding.EncodeToString([]byte(s))) },
		"b64x2": func(s string) []byte {
			return []byte(base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s)))))
		},
		"b64lines": func(s string) []byte {
			var out []byte
			for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString([]byte(s))), 76) {
				out = append(append(out, line...), '\n')
			}
			return out
		},
	}
}

// bzipped is the text of TestSecretsAreFoundInEveryEncoding, compressed by bzip2
// 1.0.8. Go cannot compress bzip2.
const bzipped = "QlpoOTFBWSZTWWd6mYoAAAXfgAAQSAUAgj5o/PC/5dzgIABoRNTRo0AAA2kaAGhTSbU9JoAAAGgGhQCuV8N8TtFChhNEwhYBMrUnJAXYHJ4DqSIgjQj5mMsc0aEB0sMYcjuAaUdWIRyzjZHXGSy92aKktA3vnhNhUEZEPxfKWAC8tNh+/xdyRThQkGd6mYo="

// TestVariantsOfSecretsAreFound has a file for each variant.
func TestVariantsOfSecretsAreFound(t *testing.T) {
	files := variants(t)
	files["etc/passwd"] = passwd
	h, _ := tree(t, files)
	got := strings.Join(audit(t, h, "secrets-left"), "\n")
	delete(files, "etc/passwd")
	for name, text := range files {
		assert.Contains(t, got, "/"+name+": ", "%s", text)
	}
}

// A secret is found in each way to store it, and the finding names the place.
func TestSecretsAreFoundInEveryEncoding(t *testing.T) {
	text := "# settings of the application, written by hand\nDB_HOST=db.corp\nDB_PASSWORD=" + fill(12) + "\nAWS_ACCESS_KEY_ID=AK" + "IA" + strings.ToUpper(fill(16)) + "\n"
	_, root := tree(t, map[string]string{"etc/passwd": passwd, "opt/": ""})
	places := map[string]string{
		"gz": "in the expanded content, line 4", "xz": "in the expanded content, line 4", "zst": "in the expanded content, line 4",
		"tar": `in "etc/x.env" of the archive, line 4`, "zip": `in "etc/x.env" of the archive, line 4`, "utf16le": "line 4", "utf16be": "line 4", "utf16": "line 4",
		"b64": "in the base64 text of line 1, line 4", "b64url": "in the base64 text of line 1, line 4", "b64lines": "in the base64 text of line 1, line 4",
		"b64x2": "in the base64 text of line 1, in the base64 text of line 1, line 4",
	}
	for form, encode := range encodings(t) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "opt", "x.env."+form), encode(text), 0o600))
		require.NotEmpty(t, places[form])
	}
	expanded, err := base64.StdEncoding.DecodeString(bzipped)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/x.env.bz2"), expanded, 0o600))
	places["bz2"] = "in the expanded content, line 4"
	packed := encodings(t)["gz"](string(encodings(t)["tar"](text)))
	require.NoError(t, os.WriteFile(filepath.Join(root, "opt/x.env.tgz"), packed, 0o600))
	places["tgz"] = `in the expanded content, in "etc/x.env" of the archive, line 4`
	h := hosttest.Mounted(t, root)
	got := audit(t, h, "secrets-left")
	for form, place := range places {
		assert.Contains(t, got, fmt.Sprintf("/opt/x.env.%s: %s contains an AWS access key", form, place))
	}
	assert.NotContains(t, strings.Join(got, "\n"), fill(12))
}
