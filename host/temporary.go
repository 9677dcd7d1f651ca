package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

var temporary = show.Regexp(`(?s)^\..+\.eksnode-[0-9a-f]{16}$`)

// IsTemporary says whether a file's base name is a temporary name of WriteFile and
// Replace. A killed run may leave such a file. The next write of the same file
// removes it.
func IsTemporary(name string) bool { return temporary().MatchString(name) }

// Leftovers lists the temporary files that killed writes of name left next to it.
func (h *Host) Leftovers(name string) ([]string, error) {
	dir, base := path.Split(name)
	entries, err := afero.ReadDir(h.Files, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the temporary files of an interrupted run: %w", err)
	}
	var names []string
	for _, e := range entries {
		if IsTemporary(e.Name()) && strings.HasPrefix(e.Name(), temporaryPrefix(base)) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, nil
}

func temporaryName(base string) (string, error) {
	b := make([]byte, 8)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	return temporaryPrefix(base) + hex.EncodeToString(b), nil
}

func temporaryPrefix(base string) string {
	return "." + base[:min(len(base), 200)] + ".eksnode-" // NAME_MAX is 255 bytes
}
