package host

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/afero"
)

var temporary = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)^\..+\.eksnode-[0-9a-f]{16}$`) })

// IsTemporary says whether a file's name, without its folder, is one that
// WriteFile and Replace give to what is not complete yet. A run that was killed
// may leave such a file; the next one that writes the same file removes it.
func IsTemporary(name string) bool { return temporary().MatchString(name) }

// Leftovers lists the temporary files that killed writes of name left beside it.
func (h *Host) Leftovers(name string) ([]string, error) {
	dir, base := path.Split(name)
	entries, err := afero.ReadDir(h.Files, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("looking for what an interrupted run left: %w", err)
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
