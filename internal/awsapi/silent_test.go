package awsapi_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// cut answers, and breaks the connection before the end.
type cut struct{}

func (cut) RoundTrip(in *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader("<DescribeImages"), iotest.ErrReader(errors.New("cut")))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body), Request: in}, nil
}

// The SDK's warnings are not for the person who waits; errors say what happened.
func TestTheSDKWritesNoLines(t *testing.T) {
	t.Setenv("AWS_CA_BUNDLE", "") // the SDK adds it to its own client only
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	path, terminal := filepath.Join(t.TempDir(), "stderr"), os.Stderr
	file, err := os.Create(path)
	require.NoError(t, err)
	os.Stderr = file
	defer func() { os.Stderr = terminal }()
	a, err := awsapi.Open(t.Context(), awsapi.Options{Region: "eu-west-1", Attempts: 2, Settle: 1, Pause: 1, HTTP: &http.Client{Transport: cut{}}})
	require.NoError(t, err)
	_, err = a.Image(t.Context(), "ami-01234567")
	assert.ErrorContains(t, err, "describing the image ami-01234567: ")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Empty(t, string(text))
}
