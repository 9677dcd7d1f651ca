package nodeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
