package asset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	sumA = strings.Repeat("a1", 32)
	sumB = strings.Repeat("b2", 32)
)

func TestParseSumReadsChecksumFiles(t *testing.T) {
	tests := map[string]struct {
		text      string
		form      SumForm
		want, err string
	}{
		"bare":                     {text: sumA, form: Bare, want: sumA},
		"bare with a line break":   {text: sumA + "\n", form: Bare, want: sumA},
		"bare in capitals":         {text: strings.ToUpper(sumA), form: Bare, want: sumA},
		"bare with the right name": {text: sumA + "  file.tgz\n", form: Bare, want: sumA},
		"bare with another name":   {text: sumA + "  other.tgz\n", form: Bare, err: "the file does not list file.tgz"},
		"listed":                   {text: sumA + "  file.tgz\n", form: Listed, want: sumA},
		"listed as binary":         {text: sumA + " *file.tgz\n", form: Listed, want: sumA},
		"listed in a folder":       {text: sumA + "  ./release/file.tgz\n", form: Listed, want: sumA},
		"listed among others":      {text: sumB + "  other.tgz\n\n" + sumA + "  file.tgz\n", form: Listed, want: sumA},
		"listed twice alike":       {text: sumA + "  file.tgz\n" + sumA + "  file.tgz\n", form: Listed, want: sumA},
		"clear-signed": {text: "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + sumB + "  other.tgz\n" + sumA + "  file.tgz\n-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n",
			form: Listed, want: sumA},
		"line ends of DOS":                      {text: sumA + "  file.tgz\r\n", form: Listed, want: sumA},
		"listed twice, differently":             {text: sumA + "  file.tgz\n" + sumB + "  file.tgz\n", form: Listed, err: "the file has two different sums of file.tgz"},
		"two bare ones":                         {text: sumA + "\n" + sumB + "\n", form: Bare, err: "the file has two different sums of file.tgz"},
		"not listed":                            {text: sumB + "  other.tgz\n", form: Listed, err: "the file does not list file.tgz"},
		"a name with the file's name as suffix": {text: sumB + "  myfile.tgz\n", form: Listed, err: "the file does not list file.tgz"},
		"a sum without a name":                  {text: sumA + "\n", form: Listed, err: `the line "` + sumA + `" names no file`},
		"empty":                                 {text: "", form: Bare, err: "the file is empty"},
		"only blank lines":                      {text: " \n\n", form: Listed, err: "the file is empty"},
		"HTML":                                  {text: "<html>\n<body>Sorry</body>", form: Bare, err: `the line "<html>" is not a SHA-256`},
		"too short":                             {text: sumA[:62], form: Bare, err: `the line "` + sumA[:62] + `" is not a SHA-256`},
		"another hash":                          {text: strings.Repeat("a", 128), form: Bare, err: `the line "` + strings.Repeat("a", 100) + `" is not a SHA-256`},
		"not hexadecimal":                       {text: strings.Repeat("xy", 32), form: Bare, err: `the line "` + strings.Repeat("xy", 32) + `" is not a SHA-256`},
		"three words":                           {text: sumA + " file.tgz more\n", form: Listed, err: `the line "` + sumA + ` file.tgz more" is not a SHA-256`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseSum(test.text, test.form, "file.tgz")
			if test.err != "" {
				require.EqualError(t, err, test.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
}

func FuzzParseSum(f *testing.F) {
	f.Add(sumA+"  file.tgz\n", true)
	f.Add(sumA, false)
	f.Add(strings.ToUpper(sumB)+" *a/file.tgz", true)
	f.Fuzz(func(t *testing.T, text string, listed bool) {
		form := Bare
		if listed {
			form = Listed
		}
		sum, err := ParseSum(text, form, "file.tgz")
		if err != nil {
			assert.Empty(t, sum, "an error must come without a sum")
			return
		}
		assert.True(t, IsSum(sum))
		assert.Contains(t, strings.ToLower(text), sum, "the sum must be in the text")
		if listed {
			assert.Contains(t, text, "file.tgz")
		}
	})
}
