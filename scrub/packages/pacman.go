package packages

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/afero"
)

const pacmanLocal = "/var/lib/pacman/local"

// pacmanFiles reads pacman's local database, a folder per package.
func pacmanFiles(l *lister) error {
	entries, err := afero.ReadDir(l.h.Files, pacmanLocal)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading pacman's lists of files: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		text, err := content(l.h, path.Join(pacmanLocal, e.Name(), "files"))
		if err != nil {
			return fmt.Errorf("reading pacman's lists of files: %w", err)
		}
		listed := false
		for line := range strings.Lines(text) {
			file := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(file, "%"):
				listed = file == "%FILES%"
			case file != "" && listed:
				if err := l.add(e.Name(), "/"+file); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
