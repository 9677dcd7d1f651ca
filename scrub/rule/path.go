package rule

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// PlanPath plans one path, if it exists and has something to remove.
func PlanPath(h *host.Host, verb plan.Verb, name, why string) (plan.Answer, error) {
	st, err := h.Files.Lstat(name)
	if err != nil {
		return plan.Answer{}, IgnoreMissing(err)
	}
	switch verb {
	case plan.Remove:
		return plan.Acts(removeAction(h, name, why)), nil
	case plan.Empty:
		return planEmpty(h, name, st, why)
	default:
		return plan.Answer{}, fmt.Errorf("%s: a rule with paths does not support the action %q", name, verb)
	}
}

func removeAction(h *host.Host, name, why string) plan.Action {
	return plan.Action{Verb: plan.Remove, Target: name, Reason: why,
		Count: func() (host.Removal, error) { return h.Files.Measure(name, false) },
		Take:  func(context.Context) (host.Removal, error) { return h.Files.RemoveTree(name) },
	}
}

func planEmpty(h *host.Host, name string, st fs.FileInfo, why string) (plan.Answer, error) {
	if st.Mode()&fs.ModeSymlink != 0 { // a moved directory keeps its link
		target, err := h.Files.Stat(name)
		if err != nil || !target.IsDir() {
			return plan.Answer{}, IgnoreMissing(err)
		}
		st = target
	}
	a := plan.Action{Verb: plan.Empty, Target: name, Reason: why}
	switch {
	case st.IsDir():
		empty, err := IsEmpty(h, name)
		if err != nil || empty {
			return plan.Answer{}, err
		}
		a.Count = func() (host.Removal, error) { return h.Files.Measure(name, true) }
		a.Take = func(context.Context) (host.Removal, error) { return h.Files.RemoveContents(name) }
	case st.Mode().IsRegular() && st.Size() > 0:
		content, err := h.Files.Measure(name, false)
		if err != nil {
			return plan.Answer{}, err
		}
		content.Entries = 0 // the file stays
		a.Count = func() (host.Removal, error) { return content, nil }
		a.Take = func(context.Context) (host.Removal, error) {
			if err := h.Files.Truncate(name); err != nil {
				return host.Removal{}, err
			}
			return content, nil
		}
	default:
		return plan.Answer{}, nil
	}
	return plan.Acts(a), nil
}

// IsEmpty reports whether a directory has no entries.
func IsEmpty(h *host.Host, name string) (bool, error) {
	dir, err := h.Files.Open(name)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// Kept reports whether a name matches one of some patterns.
func Kept(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// IsMissing reports whether a path does not exist.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// IgnoreMissing leaves out the error of a path that does not exist.
func IgnoreMissing(err error) error {
	if IsMissing(err) {
		return nil
	}
	return err
}

// literal is the file or folder before the first wildcard of a pattern.
func literal(pattern string) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if strings.ContainsAny(part, `*?[`) {
			return path.Clean("/" + unquoteGlob(strings.Join(parts[:i], "/")))
		}
	}
	return path.Clean("/" + unquoteGlob(pattern))
}

// place is a pattern and the folder before its first wildcard: see
// host.Files.Foreign.
type place struct{ pattern, named string }

// names returns the matching paths, and the foreign mounts that were not
// searched.
func (p place) names(h *host.Host) ([]string, []*host.ForeignMount, error) {
	found := []string{"/"}
	var foreign []*host.ForeignMount
	parts := strings.Split(strings.Trim(p.pattern, "/"), "/")
	for i, part := range parts {
		var next []string
		for _, dir := range found {
			names, m, err := p.matching(h, dir, part, i == len(parts)-1)
			if err != nil {
				return nil, nil, fmt.Errorf("looking for %s: %w", p.pattern, err)
			}
			if m != nil && !m.Kernel {
				foreign = append(foreign, m)
			}
			next = append(next, names...)
		}
		found = next
	}
	return found, foreign, nil
}

// matching lists the entries of a directory that match one part of a pattern. A
// part without wildcards is looked up only if it is the last. Foreign mounts
// are not searched.
func (p place) matching(h *host.Host, dir, part string, last bool) ([]string, *host.ForeignMount, error) {
	if !strings.ContainsAny(part, `*?[`) {
		name := path.Join(dir, unquoteGlob(part))
		if !last {
			return []string{name}, nil, nil
		}
		if m, err := h.Files.Foreign(name, p.named, false); err != nil || m != nil {
			return nil, m, err
		}
		_, err := h.Files.Lstat(name)
		if LeadsNowhere(err) {
			return nil, nil, nil
		}
		return []string{name}, nil, err
	}
	if m, err := h.Files.Foreign(dir, p.named, true); err != nil || m != nil {
		return nil, m, err
	}
	entries, err := list(h, dir)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, e := range entries {
		ok, err := path.Match(part, e)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			names = append(names, path.Join(dir, e))
		}
	}
	return names, nil, nil
}

// list returns the names in a directory; none if there is no directory.
func list(h *host.Host, dir string) ([]string, error) {
	st, err := h.Files.Stat(dir)
	if LeadsNowhere(err) || err == nil && !st.IsDir() {
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
	names, err := in.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// LeadsNowhere reports whether nothing exists at a path: a part of it is
// missing, is no folder, or is a link that leads to itself.
func LeadsNowhere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// unquoteGlob removes the backslashes that quoteGlob added.
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

// Expression compiles an expression when it is first used, because only an
// audit searches.
func Expression(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Within reports whether a place is a folder, or below it.
func Within(folder, place string) bool {
	return place == folder || strings.HasPrefix(place, strings.TrimSuffix(folder, "/")+"/")
}

// matching lists the paths on this machine that match patterns of path.Match, in order, and
// the foreign mounts that were not searched. Links in the last part are not followed. A folder
// that cannot be listed is an error: afero.Glob and filepath.Glob skip such folders, so their
// contents would count as clean.
func matching(h *host.Host, paths []string) ([]string, []*host.ForeignMount, error) {
	patterns, err := places(h, paths)
	if err != nil {
		return nil, nil, err
	}
	var names []string
	var foreign []*host.ForeignMount
	for _, p := range patterns {
		found, mounts, err := p.names(h)
		if err != nil {
			return nil, nil, err
		}
		names, foreign = append(names, found...), append(foreign, mounts...)
	}
	slices.Sort(names)
	return slices.Compact(names), foreign, nil
}
