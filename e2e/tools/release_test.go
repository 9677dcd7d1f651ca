package tools

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
)

// script is a program that prints the version 1.2.3.
const script = "#!/bin/sh\necho tool v1.2.3\n"

// site is a publisher's site on loopback, with the pages of a test.
func site(t *testing.T, pages map[string]string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch text, known := pages[r.URL.Path]; {
		case !known:
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// getting gets a tool whose module does not exist, with an empty cache.
func getting(t *testing.T, from release) (path, log string, err error) {
	t.Setenv("GOPROXY", "off")
	var out strings.Builder
	one := builder{version: "1.2.3", arch: "amd64", log: &out, tool: Tool{
		Name: "tool", module: "example.invalid/tool", packages: []string{"."}, output: named("tool"), release: from,
		probe: probe{[]string{"--version"}, format("tool v%s")},
	}}
	path, err = one.get(t.Context(), cache{folder: t.TempDir()})
	return path, out.String(), err
}

func sumOf(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

func zipped(t *testing.T, name, text string) string {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	file, err := w.Create(name)
	require.NoError(t, err)
	_, err = file.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.String()
}

// Wrong data from a site is an error: the tool is not built instead.
func TestInvalidReleaseIsAnError(t *testing.T) {
	other := zipped(t, "other", script)
	for name, c := range map[string]struct{ path, file, sum, member, want string }{
		"another file":      {"/tool", script, sumOf("other"), "", "comparing URL/tool with URL/sum: the file has the SHA-256 " + sumOf(script) + ", the publisher says " + sumOf("other") + "; does a proxy change downloads?"},
		"no checksum":       {"/tool", script, "<html>", "", `reading the checksum file URL/sum: the line "<html>" is not a SHA-256`},
		"an empty list":     {"/tool", script, "", "", "reading the checksum file URL/sum: the file is empty"},
		"another's sum":     {"/tool", script, sumOf(script) + "  other\n", "", "reading the checksum file URL/sum: the file does not list tool"},
		"an empty zip":      {"/tool.zip", other, sumOf(other), "tool", "unpacking URL/tool.zip: open tool: file does not exist"},
		"no archive":        {"/tool.tar.gz", "text", sumOf("text"), "tool", "unpacking URL/tool.tar.gz: unexpected EOF"},
		"another's version": {"/tool", "#!/bin/sh\necho tool v1.2.4\n", sumOf("#!/bin/sh\necho tool v1.2.4\n"), "", "checking `tool --version`: printed \"tool v1.2.4\", must contain \"tool v1.2.3\""},
	} {
		t.Run(name, func(t *testing.T) {
			where := site(t, map[string]string{c.path: c.file, "/sum": c.sum})
			_, log, err := getting(t, release{url: where + c.path, sum: where + "/sum", form: asset.Bare, member: c.member})
			require.EqualError(t, err, strings.ReplaceAll(c.want, "URL", where))
			assert.NotContains(t, log, "building")
		})
	}
}

func TestPackerOnSearchPath(t *testing.T) {
	for _, c := range []struct {
		name, script, version string
		fits                  bool
	}{
		{"the wanted version", "echo Packer v1.12.0", "1.12.0", true},
		{"another version", "echo Packer v1.14.0", "1.15.0", false},
		{"any new enough", "echo Packer v1.14.0", "", true},
		{"with an update message", "echo Packer v1.14.0; echo; echo Your version of Packer is out of date", "", true},
		{"too old", "echo Packer v1.9.9", "", false},
		{"newer than the table", "echo Packer v2.0.0", "", true},
		{"cracklib's", "cat > /dev/null; echo skipping line: 1", "", false},
		{"a program that fails", "echo Packer v1.14.0; exit 1", "", false},
		{"a program without output", ":", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			packer := filepath.Join(folder, "packer")
			require.NoError(t, os.WriteFile(packer, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755))
			t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
			program, _ := onPath(t.Context(), c.version)
			assert.Equal(t, c.fits, program == packer, program)
		})
	}
	t.Setenv("PATH", t.TempDir())
	program, _ := onPath(t.Context(), "")
	assert.Empty(t, program)
}
