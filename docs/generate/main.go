// Command generate writes the pages that come from the code's own tables, and
// their copies for Packer's registry:
//
//	go run ./docs/generate
//
// The prose of a page is in docs/generate/pages, at the page's path in docs. Its
// tables come from the packages scrub, distros, asset, preflight and diagnose, from
// the doc comments of the specs and of the plugin's configurations, and from the
// help of the built command. The help of flags comes from the same comments.
package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes all generated files of the repository at root, and removes stale
// pages.
func run(ctx context.Context, root string) error {
	help, err := optionHelp(root)
	if err == nil {
		err = write(root, helpFile, help) // the pages of commands show it
	}
	if err != nil {
		return err
	}
	generated, err := pages(ctx, root)
	if err != nil {
		return err
	}
	for name, text := range generated {
		if err := write(root, name, text); err != nil {
			return err
		}
	}
	old, err := stale(root, generated)
	if err != nil {
		return err
	}
	for _, name := range old {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return fmt.Errorf("removing a stale page: %w", err)
		}
	}
	return nil
}

func write(root, name, text string) error {
	name = filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("making the folder of a generated file: %w", err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing a generated file: %w", err)
	}
	return nil
}

// markdown calls a function for each page below folders of the repository, or at their place.
func markdown(root string, folders []string, see func(name, text string)) error {
	for _, from := range folders {
		err := filepath.WalkDir(filepath.Join(root, from), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(name) != ".md" {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, name)
			see(filepath.ToSlash(relative), string(text))
			return err
		})
		if err != nil {
			return fmt.Errorf("reading the pages below %s: %w", from, err)
		}
	}
	return nil
}

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
	err = markdown(root, []string{"README.md", "docs", "examples"}, func(name, page string) {
		if installed.MatchString(page) && !strings.HasPrefix(page, mark) {
			written[name] = installed.ReplaceAllLiteralString(page, text)
		}
	})
	return written, err
}

// repository is the address of the pages outside the repository.
const repository = "https://github.com/eksnode/packer-plugin-eksnode/blob/main/"

const components = "docs/reference/components/"

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// absolute replaces the relative links of a page with addresses.
func absolute(page, text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		to := link.FindStringSubmatch(found)[1]
		if strings.Contains(to, "://") || strings.HasPrefix(to, "#") {
			return found
		}
		file, anchor, has := strings.Cut(to, "#")
		if has {
			anchor = "#" + anchor
		}
		return "](" + repository + path.Join(path.Dir(page), file) + anchor + ")"
	})
}

// anchor is the name that GitHub gives to a heading in links.
func anchor(heading string) string {
	return strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// source has the parsed Go files of a folder of the repository.
type source struct {
	root, folder string
	files        []*ast.File
}

func parseFolder(root, folder string) (source, error) {
	s := source{root: root, folder: folder}
	names, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return s, fmt.Errorf("reading the fields: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return s, fmt.Errorf("reading the fields: %w", err)
		}
		s.files = append(s.files, file)
	}
	return s, nil
}

// find returns the definition of a type and its file; nil for types of other
// packages.
func (s source) find(name string) (ast.Expr, *ast.File) {
	for _, file := range s.files {
		for _, d := range file.Decls {
			types, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range types.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
					return t.Type, file
				}
			}
		}
	}
	return nil, nil
}
