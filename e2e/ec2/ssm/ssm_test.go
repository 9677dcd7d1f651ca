package ssm

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/ec2/endpoint"
)

func TestGetParameter(t *testing.T) {
	server := httptest.NewServer(endpoint.New("AKIATEST", Service(map[string]string{"/aws/ami": "ami-1"})))
	t.Cleanup(server.Close)
	for body, want := range map[string]string{
		`{"Name":"/aws/ami","WithDecryption":true}`: `{"Parameter":{"Name":"/aws/ami","Type":"String","Value":"ami-1","Version":1,` +
			`"ARN":"arn:aws:ssm:eu-west-1::parameter/aws/ami","DataType":"text"}}`,
		`{"Name":"/aws/none"}`: `{"__type":"ParameterNotFound","message":"the parameter \"/aws/none\" does not exist"}`,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIATEST/20260102/eu-west-1/ssm/aws4_request, SignedHeaders=host, Signature=0")
		request.Header.Set("X-Amz-Target", "AmazonSSM.GetParameter")
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
}
