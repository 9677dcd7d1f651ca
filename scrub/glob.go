package scrub

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// glob lists what a pattern of path.Match names on the machine, sorted; links
// in the last place are not followed. A folder that cannot be listed is an
// error: afero.Glob and filepath.Glob pass over it, and what it holds would
// count as clean.
func glob(h *host.Host, pattern string) ([]string, error) {
	found := []string{"/"}
	parts := strings.Split(strings.Trim(pattern, "/"), "/")
	for i, part := range parts {
		var next []string
		for _, dir := range found {
			names, err := matching(h, dir, part, i == len(parts)-1)
			if err != nil {
				return nil, fmt.Errorf("looking for %s: %w", pattern, err)
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, nil
}

// matching lists the entries of a directory that match one part of a pattern.
// A part without wildcards is not looked up unless it is the last.
func matching(h *host.Host, dir, part string, last bool) ([]string, error) {
	if !strings.ContainsAny(part, `*?[`) {
		name := path.Join(dir, unquoteGlob(part))
		if !last {
			return []string{name}, nil
		}
		_, err := h.Files.Lstat(name)
		if leadsNowhere(err) {
			return nil, nil
		}
		return []string{name}, err
	}
	st, err := h.Files.Stat(dir)
	if leadsNowhere(err) || err == nil && !st.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	in, err := h.Files.Open(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	entries, err := in.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(entries)
	var names []string
	for _, e := range entries {
		ok, err := path.Match(part, e)
		if err != nil {
			return nil, err
		}
		if ok {
			names = append(names, path.Join(dir, e))
		}
	}
	return names, nil
}

// walk visits top and all below it, as afero.Walk does, but goes into a top that
// is a link to a folder: one that was moved elsewhere keeps its name here. Links
// below are visited and not followed.
func walk(h *host.Host, top string, visit filepath.WalkFunc) error {
	st, err := h.Files.Lstat(top)
	if err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return afero.Walk(h.Files, top, visit)
	}
	target, err := h.Files.Stat(top)
	if leadsNowhere(err) || err == nil && !target.IsDir() {
		return nil
	}
	if err != nil {
		return visit(top, st, err)
	}
	entries, err := afero.ReadDir(h.Files, top)
	if err != nil {
		return visit(top, target, err)
	}
	for _, e := range entries {
		if err := afero.Walk(h.Files, path.Join(top, e.Name()), visit); err != nil {
			return err
		}
	}
	return nil
}

// leadsNowhere says whether a name has nothing behind it: a part of it is
// missing, is no folder, or is a link that goes in a circle.
func leadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// unquoteGlob takes the backslashes away that quoteGlob put in.
func unquoteGlob(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
