package mirror

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// A server of the tests serves nothing outside its folder, and no list of files.
func TestOnlyFilesOfTheFolderAreServed(t *testing.T) {
	above := t.TempDir()
	folder := filepath.Join(above, "mirror")
	testkit.Write(t, filepath.Join(folder, "host/file"), "content")
	require.NoError(t, os.WriteFile(filepath.Join(above, "secret"), []byte("secret"), 0o644))
	require.NoError(t, os.Symlink("../../secret", filepath.Join(folder, "host/link")))
	server := Serve(t, nil, folder, Options{})
	for request, want := range map[[2]string]int{
		{"GET", "/host/file"}: 200, {"PUT", "/host/file"}: 405, {"GET", "/host/link"}: 404, {"GET", "/../secret"}: 404,
		{"GET", "/host/"}: 404, {"GET", "/host"}: 404, {"GET", "/"}: 404,
	} {
		out := httptest.NewRecorder()
		server.ServeHTTP(out, httptest.NewRequest(request[0], request[1], nil))
		assert.Equal(t, want, out.Code, request)
	}
}

// Place refuses addresses whose file would be outside the mirror.
func TestPlaceRefusesOtherPlaces(t *testing.T) {
	const form = "must be https://HOST/PATH"
	const dots = "the path must name a file, without dots and doubled slashes"
	for address, want := range map[string]string{
		"http://dl.k8s.io/x": form, "/etc/passwd": form, "https://h/x?y=z": form,
		"https://h": dots, "https://h/a/": dots, "https://h/../../x": dots, "https://h/%2e%2e/x": dots, "https://../x": dots,
	} {
		_, err := Place(address)
		require.EqualError(t, err, "placing "+address+" in the mirror: "+want)
	}
}
