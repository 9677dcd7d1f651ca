package packages

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// PacmanLocal is the folder of pacman's local database.
const PacmanLocal = "/var/lib/pacman/local"

// EachPacman calls do with each folder of pacman's local database: one for a package.
func EachPacman(h *host.Host, do func(owner, folder string) error) error {
	entries, err := afero.ReadDir(h.Files, PacmanLocal)
	if isMissing(err) {
		return nil
	}
	for _, e := range entries {
		if err == nil && e.IsDir() {
			err = do(e.Name(), path.Join(PacmanLocal, e.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("reading pacman's database: %w", err)
	}
	return nil
}

// pacmanFiles reads the lists of files.
func pacmanFiles(l *lister) error {
	return EachPacman(l.h, func(owner, folder string) error {
		text, err := content(l.h, path.Join(folder, "files"))
		if err != nil {
			return err
		}
		listed := false
		for line := range strings.Lines(text) {
			file := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(file, "%"):
				listed = file == "%FILES%"
			case file != "" && listed:
				if err := l.add(owner, "/"+file); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// pacmanSums reads the manifests of pacman's local database; %BACKUP% of a
// package lists its configuration files.
func pacmanSums(l *lister, all Originals) error {
	return EachPacman(l.h, func(owner, folder string) error {
		packed, err := content(l.h, path.Join(folder, "mtree"))
		if isMissing(err) {
			return nil
		}
		var text []byte
		if err == nil {
			text, err = unpacked(packed)
		}
		var files string
		if err == nil {
			files, err = content(l.h, path.Join(folder, "files"))
		}
		if err == nil {
			err = mtree(l, owner, text, backups(files), all)
		}
		if err != nil {
			return fmt.Errorf("the checksums of %s: %w", owner, err)
		}
		return nil
	})
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
	for line := range bytes.Lines(text) {
		fields := strings.Fields(string(line))
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
	return nil
}

// pacmanInstalled reads pacman's descriptions. Owners are the names of the folders.
func pacmanInstalled(_ context.Context, h *host.Host, all Installed) error {
	return EachPacman(h, func(owner, folder string) error {
		text, err := content(h, path.Join(folder, "desc"))
		if isMissing(err) {
			return nil
		}
		if err == nil {
			fields := PacmanFields(text)
			value := func(field string) string { return strings.Join(fields[field], " AND ") }
			all.add(owner, Package{value("NAME"), value("VERSION"), value("BASE"), value("LICENSE")})
		}
		return err
	})
}

// PacmanFields reads a desc file: fields named %NAME%, one value per line, and an empty line
// after each field.
func PacmanFields(text string) map[string][]string {
	fields := map[string][]string{}
	field := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
			field = ""
		case field == "" && len(line) > 2 && strings.HasPrefix(line, "%") && strings.HasSuffix(line, "%"):
			field = strings.Trim(line, "%")
		case field != "":
			fields[field] = append(fields[field], line)
		}
	}
	return fields
}
