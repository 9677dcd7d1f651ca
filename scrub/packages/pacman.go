package packages

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
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

// pacmanSums reads the manifests of pacman's local database; %BACKUP% of a
// package lists its configuration files.
func pacmanSums(l *lister, all Originals) error {
	entries, err := afero.ReadDir(l.h.Files, pacmanLocal)
	if err != nil {
		if isMissing(err) {
			return nil
		}
		return fmt.Errorf("reading pacman's checksums: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		packed, err := content(l.h, path.Join(pacmanLocal, e.Name(), "mtree"))
		if isMissing(err) {
			continue
		}
		var text []byte
		if err == nil {
			text, err = unpacked(packed)
		}
		var files string
		if err == nil {
			files, err = content(l.h, path.Join(pacmanLocal, e.Name(), "files"))
		}
		if err == nil {
			err = mtree(l, e.Name(), text, backups(files), all)
		}
		if err != nil {
			return fmt.Errorf("reading pacman's checksums of %s: %w", e.Name(), err)
		}
	}
	return nil
}

// unpacked is an mtree file as text; pacman compresses it with gzip.
func unpacked(packed string) ([]byte, error) {
	if !strings.HasPrefix(packed, "\x1f\x8b") {
		return []byte(packed), nil
	}
	in, err := gzip.NewReader(strings.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(in, listMost+1))
	if err == nil && len(text) > listMost {
		err = fmt.Errorf("mtree has more than %d bytes", listMost)
	}
	return text, err
}

// backups are the configuration files of a package in pacman's list of files.
func backups(files string) map[string]bool {
	found := map[string]bool{}
	_, list, _ := strings.Cut(files, "%BACKUP%\n")
	for line := range strings.Lines(list) {
		name, _, ok := strings.Cut(line, "\t")
		if !ok {
			break
		}
		found["/"+name] = true
	}
	return found
}

// mtree reads the checksums of a manifest in the form of mtree(5).
func mtree(l *lister, owner string, text []byte, config map[string]bool, all Originals) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "./") {
			continue
		}
		name := path.Join("/", show.Unescape(fields[0]))
		for _, f := range fields[1:] {
			if sum, ok := strings.CutPrefix(f, "sha256digest="); ok {
				if err := all.add(l, owner, name, sum, config[name]); err != nil {
					return err
				}
			}
		}
	}
	return lines.Err()
}

// pacmanInstalled reads pacman's descriptions. Owners are the names of the folders.
func pacmanInstalled(_ context.Context, h *host.Host, all Installed) error {
	entries, err := afero.ReadDir(h.Files, pacmanLocal)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		text, err := content(h, path.Join(pacmanLocal, e.Name(), "desc"))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		value := func(field string) string {
			_, rest, _ := strings.Cut("\n"+text, "\n%"+field+"%\n")
			first, _, _ := strings.Cut(rest, "\n")
			return first
		}
		all.add(e.Name(), value("NAME"), value("VERSION"))
	}
	return nil
}
