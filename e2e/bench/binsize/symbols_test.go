package binsize

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"net/http.(*Transport).dialConn": "net/http",
		"main.main":                      "main",
		"github.com/spf13/cobra.(*Command).Execute.func1":               "github.com/spf13/cobra",
		"gopkg.in/yaml%2ev3.(*Node).Decode":                             "gopkg.in/yaml.v3",
		"slices.SortFunc[go.shape.[]example.com/a/b.T,go.shape.string]": "slices",
		"type:.eq.net/http.http2FrameHeader":                            "net/http",
		"type:.eq.[2]example.com/a.T":                                   "example.com/a",
		"go:itab.*os.File,io.Reader":                                    "os",
		"vendor/golang.org/x/net/idna.idnaValues":                       "vendor/golang.org/x/net/idna",
		"_rt0_amd64_linux":                                              "",
	} {
		assert.Equal(t, want, packageOf(symbol), symbol)
	}
}

func TestOriginOf(t *testing.T) {
	modules := []string{"example.com/own", "example.com/own/sub", "example.com/other"}
	for path, want := range map[string]string{
		"main": "this project", "example.com/own": "this project", "example.com/own/a": "this project",
		"example.com/own/sub/a": "example.com/own/sub", "example.com/other": "example.com/other",
		"example.com/others": "std: the rest", // no such module: only whole elements count
		"crypto/tls":         "std: crypto and TLS", "net": "std: net/http and net", "netx": "std: the rest",
		"vendor/golang.org/x/crypto/chacha20": "std: crypto and TLS", "vendor/golang.org/x/net/idna": "std: net/http and net",
		"strings": "std: the rest", "": "no package (assembly, start-up)",
	} {
		assert.Equal(t, want, originOf(path, modules), path)
	}
}

func TestReadContents(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, Build(t.Context(), ".", "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode", program, false))
	c, err := ReadContents(program)
	require.NoError(t, err)
	size, err := Measure(program)
	require.NoError(t, err)
	sum := c.Lines + c.Types
	origins := map[string]Share{}
	for _, s := range c.Shares {
		origins[s.Origin] = s
		sum += s.Code + s.Data
	}
	assert.Positive(t, origins["this project"].Code)
	assert.Positive(t, origins["github.com/spf13/cobra"].Code)
	assert.Positive(t, c.Lines)
	assert.Positive(t, c.Types)
	assert.Less(t, sum, size.Stripped, "nothing counts twice: the file has debug information besides")
	assert.IsNonIncreasing(t, []int64{c.Shares[0].Code + c.Shares[0].Data, c.Shares[1].Code + c.Shares[1].Data, c.Shares[2].Code + c.Shares[2].Data})
}

func TestReadContentsOfAStrippedProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	require.NoError(t, Build(t.Context(), ".", "github.com/eksnode/packer-plugin-eksnode/cmd/eksnode", program, true))
	_, err := ReadContents(program)
	require.ErrorContains(t, err, "reading the symbols of "+program)
}
