package packages

import (
	"fmt"
	"path"
	"strings"

	"github.com/spf13/afero"
)

const (
	dpkgStatus = "/var/lib/dpkg/status"
	dpkgInfo   = "/var/lib/dpkg/info"
)

// dpkgFiles reads dpkg's lists of files, one per package. A list that is
// missing for an installed package is an error.
func dpkgFiles(l *lister) error {
	entries, err := afero.ReadDir(l.h.Files, dpkgInfo)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("reading dpkg's lists of files: %w", err)
	}
	listed := map[string]bool{}
	for _, e := range entries {
		owner, ok := strings.CutSuffix(e.Name(), ".list")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(owner, ":")
		listed[name] = true
		if err := dpkgList(l, owner, path.Join(dpkgInfo, e.Name())); err != nil {
			return err
		}
	}
	status, err := content(l.h, dpkgStatus)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the installed packages: %w", err)
	}
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		name, installed := "", false
		for line := range strings.Lines(paragraph) {
			if v, ok := strings.CutPrefix(line, "Package:"); ok {
				name = strings.TrimSpace(v)
			}
			if v, ok := strings.CutPrefix(line, "Status:"); ok {
				installed = strings.HasSuffix(strings.TrimSpace(v), " installed")
			}
		}
		if installed && !listed[name] {
			return fmt.Errorf("reading dpkg's lists of files: %q has no list in %s; install the package again", name, dpkgInfo)
		}
	}
	return nil
}

func dpkgList(l *lister, owner, name string) error {
	text, err := content(l.h, name)
	if err != nil {
		return fmt.Errorf("reading dpkg's lists of files: %w", err)
	}
	number := 0
	for line := range strings.Lines(text) {
		number++
		file := strings.TrimSuffix(line, "\n")
		if !path.IsAbs(file) {
			return fmt.Errorf("reading dpkg's lists of files: %s:%d: %.80q is not an absolute path; install the package again", name, number, file)
		}
		if err := l.add(owner, file); err != nil {
			return err
		}
	}
	return nil
}
