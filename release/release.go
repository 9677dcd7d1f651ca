package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

const (
	pluginName  = "packer-plugin-eksnode"
	commandName = "eksnode"
)

// release is one version of the sources that is built.
type release struct {
	root    string    // the repository
	version string    // without "v" and without "-dev"
	made    time.Time // of the commit; every file in an archive carries it
	log     io.Writer
}

// open finds the repository that this program is started in.
func open(ctx context.Context, log io.Writer) (*release, error) {
	root, err := output(ctx, ".", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("finding the repository: %w", err)
	}
	seconds, err := output(ctx, root, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return nil, fmt.Errorf("asking for the commit's time: %w", err)
	}
	made, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reading the commit's time: %w", err)
	}
	return &release{root: root, version: version.Version, made: time.Unix(made, 0).UTC(), log: log}, nil
}

// ready says why this commit may not be released as the tag; any version may
// when there is none.
func (r *release) ready(ctx context.Context, tag string) error {
	if tag != "" && tag != "v"+r.version {
		return fmt.Errorf("releasing %s: internal/version/version.go says %s; tag the commit that has the version", tag, r.version)
	}
	changed, err := output(ctx, r.root, "git", "status", "--porcelain")
	if err != nil {
		return fmt.Errorf("looking for changes: %w", err)
	}
	if changed != "" {
		return fmt.Errorf("releasing %s: there are changes that are not committed:\n%s", r.version, changed)
	}
	_, err = r.notes()
	return err
}

// notes are the version's own section of the changelog.
func (r *release) notes() (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return "", fmt.Errorf("reading the changelog: %w", err)
	}
	return section(string(text), r.version)
}

// section is what a changelog says of one version.
func section(changelog, version string) (string, error) {
	_, rest, found := strings.Cut(changelog, "\n## ["+version+"]")
	if !found {
		return "", fmt.Errorf("reading the changelog: it has no section [%s]; give what is unreleased this version's name", version)
	}
	_, body, _ := strings.Cut(rest, "\n")
	for _, end := range []string{"\n## ", "\n["} { // the next section, or the links at the end
		body, _, _ = strings.Cut(body, end)
	}
	if body = strings.TrimSpace(body); body == "" {
		return "", fmt.Errorf("reading the changelog: the section [%s] is empty", version)
	}
	return body + "\n", nil
}

// build makes the release of these targets in the folder out, and verifies it.
func (r *release) build(ctx context.Context, out string, list []target) error {
	out, err := emptyFolder(out)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "eksnode-release-*")
	if err != nil {
		return fmt.Errorf("making a scratch folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	if err := r.archives(ctx, r.root, scratch, out, list); err != nil {
		return err
	}
	if notes, err := r.notes(); err == nil { // a check may come before the changelog's section
		if err := os.WriteFile(filepath.Join(out, "NOTES.md"), []byte(notes), 0o644); err != nil {
			return fmt.Errorf("writing the notes: %w", err)
		}
	}
	return r.verify(out, list)
}

// emptyFolder makes the folder, or says why it may not be used.
func emptyFolder(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("finding the folder %s: %w", name, err)
	}
	entries, err := os.ReadDir(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("looking into the folder: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("building into %s: it is not empty; remove what is in it or name another folder with -out", name)
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return "", fmt.Errorf("making the folder: %w", err)
	}
	return name, nil
}

// say tells the person who waits.
func (r *release) say(format string, values ...any) { fmt.Fprintf(r.log, format+"\n", values...) }
