package ec2

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInstanceData(t *testing.T) {
	for name, test := range map[string]struct {
		launch Launch
		want   []string
	}{
		"user only": {Launch{User: "ec2-user"}, []string{"text/cloud-config", "#cloud-config\nuser: ec2-user\n"}},
		"and data": {
			Launch{User: "arch", UserData: []byte("#!/bin/sh\necho\r\n\x00")},
			[]string{"text/cloud-config", "#cloud-config\nuser: arch\n", "text/plain", "#!/bin/sh\necho\r\n\x00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := instanceData(test.launch)
			require.NoError(t, err)
			message, err := mail.ReadMessage(bytes.NewReader(data))
			require.NoError(t, err)
			kind, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
			require.NoError(t, err)
			assert.Equal(t, "multipart/mixed", kind)
			var got []string
			for parts := multipart.NewReader(message.Body, parameters["boundary"]); ; {
				part, err := parts.NextPart()
				if err == io.EOF {
					break
				}
				require.NoError(t, err)
				text, err := io.ReadAll(part)
				require.NoError(t, err)
				got = append(got, part.Header.Get("Content-Type"), string(text))
			}
			assert.Equal(t, test.want, got)
		})
	}
}
