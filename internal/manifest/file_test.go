package manifest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

func TestFileIsComparesContentModeAndLink(t *testing.T) {
	recorded := File{Path: "/bin/tool", Mode: 0o755, Size: 3, SHA256: Sum([]byte("abc"))}
	link := File{Path: "/bin/link", Mode: 0o777, Link: "tool"}
	tests := map[string]struct {
		file File
		lay  func(h *host.Host) error
		same bool
		why  string
	}{
		"the same":        {recorded, write("/bin/tool", "abc", 0o755), true, ""},
		"missing":         {recorded, write("/bin/other", "abc", 0o755), false, "/bin/tool is missing"},
		"no folder":       {recorded, func(*host.Host) error { return nil }, false, "/bin/tool is missing"},
		"other content":   {recorded, write("/bin/tool", "abd", 0o755), false, "/bin/tool is not what was installed"},
		"other size":      {recorded, write("/bin/tool", "abcd", 0o755), false, "/bin/tool is not what was installed"},
		"other mode":      {recorded, write("/bin/tool", "abc", 0o700), false, "/bin/tool is not what was installed"},
		"a folder":        {recorded, func(h *host.Host) error { return h.Files.MkdirAll("/bin/tool", 0o755) }, false, "/bin/tool is not what was installed"},
		"behind a link":   {recorded, linked("/bin/tool", "/opt/tool", write("/opt/tool", "abc", 0o755)), true, ""},
		"a link":          {link, linked("/bin/link", "tool", write("/bin/tool", "abc", 0o755)), true, ""},
		"a dangling link": {link, linked("/bin/link", "tool", write("/bin/x", "", 0o755)), true, ""},
		"another link":    {link, linked("/bin/link", "tools", write("/bin/tool", "abc", 0o755)), false, "/bin/link is not the link that was installed"},
		"no link":         {link, write("/bin/link", "abc", 0o755), false, "/bin/link is not the link that was installed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			h := image(t)
			require.NoError(t, test.lay(h))
			same, why, err := test.file.Is(h)
			require.NoError(t, err)
			assert.Equal(t, test.same, same)
			assert.Equal(t, test.why, why)
			same, why, err = Asset{Files: []File{test.file}}.Is(h)
			require.NoError(t, err)
			assert.Equal(t, test.same, same)
			assert.Equal(t, test.why, why)
		})
	}
}

func write(name, content string, mode Mode) func(*host.Host) error {
	return func(h *host.Host) error {
		return h.Files.WriteFile(name, []byte(content), host.Attributes{Mode: Template{Mode: mode}.Attributes().Mode})
	}
}

func linked(name, to string, also func(*host.Host) error) func(*host.Host) error {
	return func(h *host.Host) error {
		if err := also(h); err != nil {
			return err
		}
		if err := h.Files.MkdirAll("/bin", 0o755); err != nil {
			return err
		}
		return h.Files.SymlinkIfPossible(to, name)
	}
}
