package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// installed finds what a page written by hand says about installing the plugin.
var installed = regexp.MustCompile(`(?s)<!-- install -->\n.*?<!-- /install -->`)

// releasedSection is the heading of a release in CHANGELOG.md.
var releasedSection = regexp.MustCompile(`(?m)^## \[\d`)

// installation says how to install the plugin. Before the first release, `packer init`
// has nothing to download. The changelog decides, not git: the commit of a release has
// its section before it has its tag, and archives of the sources have no tags.
func installation(changelog string) string {
	if releasedSection.MatchString(changelog) {
		return "`packer init` downloads the newest release of the plugin. To build the plugin from a clone of the repository instead, " +
			"run `make install`. `make packer` builds Packer."
	}
	return "> **Nothing is released yet**, so `packer init` cannot download the plugin. Clone the repository and run `make install` there first. " +
		"`make packer` builds Packer if you have none."
}

// installPages returns the pages written by hand that say how to install the plugin.
func installPages(root string) (map[string]string, error) {
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return nil, fmt.Errorf("looking for a release: %w", err)
	}
	text := "<!-- install -->\n" + installation(string(changelog)) + "\n<!-- /install -->"
	written := map[string]string{}
	for _, from := range []string{"README.md", "docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, from), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".md" {
				return err
			}
			page, err := os.ReadFile(name)
			if err != nil || !installed.Match(page) || strings.HasPrefix(string(page), mark) {
				return err
			}
			relative, err := filepath.Rel(root, name)
			written[filepath.ToSlash(relative)] = installed.ReplaceAllLiteralString(string(page), text)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading the pages about installing: %w", err)
		}
	}
	return written, nil
}
