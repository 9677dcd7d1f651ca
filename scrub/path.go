package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// planKeeping plans one path without its kept parts.
func planKeeping(h *host.Host, verb plan.Verb, name, why string, kept keeps) (plan.Answer, error) {
	names := []string{name}
	if len(kept) > 0 {
		// An emptied folder behind a link keeps its place.
		_, place, err := h.Trail(name, verb == plan.Empty)
		if err != nil {
			return plan.Answer{}, err
		}
		switch {
		case kept.cover(place):
			return plan.Answer{}, nil
		case kept.inside(place):
			if names, err = kept.spare(h, place); err != nil {
				return plan.Answer{}, err
			}
			verb = plan.Remove
		}
	}
	var answer plan.Answer
	var errs []error
	for _, name := range names {
		a, err := planPath(h, verb, name, why)
		if err != nil {
			errs = append(errs, err)
		}
		answer.Add(a)
	}
	return answer, errors.Join(errs...)
}

// planPath plans one path.
func planPath(h *host.Host, verb plan.Verb, name, why string) (plan.Answer, error) {
	st, err := h.Files.Lstat(name)
	if err != nil {
		return plan.Answer{}, ignoreMissing(err)
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
			return plan.Answer{}, ignoreMissing(err)
		}
		st = target
	}
	a := plan.Action{Verb: plan.Empty, Target: name, Reason: why}
	switch {
	case st.IsDir():
		empty, err := isEmpty(h, name)
		if err != nil || empty {
			return plan.Answer{}, err
		}
		a.Count = func() (host.Removal, error) { return h.Files.Measure(name, true) }
		a.Take = func(context.Context) (host.Removal, error) { return h.Files.RemoveContents(name) }
	case st.Mode().IsRegular() && st.Size() > 0:
		content := host.Removal{Bytes: st.Size()}
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

// isEmpty reports whether a directory has no entries.
func isEmpty(h *host.Host, name string) (bool, error) {
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

// removeWhere plans the removal of the files whose content matches.
func removeWhere(h *host.Host, why string, so func([]byte) bool, names ...string) (plan.Answer, error) {
	var answer plan.Answer
	for _, name := range names {
		text, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		if !so(text) {
			continue
		}
		a, err := planPath(h, plan.Remove, name, why)
		if err != nil {
			return plan.Answer{}, err
		}
		answer.Add(a)
	}
	return answer, nil
}

func kept(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func ignoreMissing(err error) error {
	if isMissing(err) {
		return nil
	}
	return err
}
