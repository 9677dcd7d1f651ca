package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// judge refuses actions of an operator's rule on files that this machine needs.
// The check needs the machine, because links lead to other places than the rule
// names, and only the machine knows which files packages own.
func (i item) judge(ctx context.Context, h *host.Host, actions []plan.Action) error {
	actions = slices.DeleteFunc(slices.Clone(actions), func(a plan.Action) bool {
		return !path.IsAbs(a.Target) || a.Verb != plan.Remove && a.Verb != plan.Empty
	})
	if len(actions) == 0 {
		return nil
	}
	needed, err := neededHere(h)
	if err != nil {
		return fmt.Errorf("listing the files that this machine needs: %w", err)
	}
	var errs []error
	for _, a := range actions {
		_, place, err := h.Trail(a.Target, a.Verb == plan.Empty)
		if err == nil {
			err = needed.check(a.Target, place)
		}
		if err == nil && !i.Owned {
			err = i.checkOwners(ctx, h, place, a.Verb)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// spareOwned leaves out the actions on files that a package owns.
func (i item) spareOwned(ctx context.Context, h *host.Host, actions []plan.Action) ([]plan.Action, error) {
	var left []plan.Action
	for _, a := range actions {
		if !rule.Kept(i.NeverOwned, a.Target) {
			have, err := i.Owners.Read(ctx, h)
			if err != nil {
				return nil, fmt.Errorf("checking whether a package owns %s: %w", a.Target, err)
			}
			_, place, err := h.Trail(a.Target, false)
			if err != nil {
				return nil, err
			}
			if _, owner, err := have.Below(h, place, true); err != nil {
				return nil, err
			} else if owner != "" {
				continue
			}
		}
		left = append(left, a)
	}
	return left, nil
}

// checkOwners refuses to remove a file that a package owns.
func (i item) checkOwners(ctx context.Context, h *host.Host, place string, verb plan.Verb) error {
	have, err := i.Owners.Read(ctx, h)
	if err != nil {
		return fmt.Errorf("checking whether a package owns %s: %w; to skip the check, set \"owned: true\" in the rule",
			place, err)
	}
	st, err := h.Files.Lstat(place)
	if err != nil {
		return rule.IgnoreMissing(err)
	}
	file, owner, err := have.Below(h, place, verb == plan.Remove || !st.IsDir())
	if err != nil || file == "" {
		return err
	}
	return fmt.Errorf("%s belongs to the package %s: list the file under keep, remove the package, or set \"owned: "+
		"true\" to let the rule remove files of packages", file, owner)
}

type item struct {
	rule.Rule
	hash bool // hash removed files
	rule.Run
}

func (i item) ID() string { return i.Rule.ID }

func (i item) Phase() string { return string(i.Rule.Phase) }

func (i item) Plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	answer, err := i.plan(ctx, h)
	answer, foreignErr := rule.WithoutForeign(ctx, h, answer)
	i.Taken.Note(i.ID(), answer.Actions)
	if i.hash {
		for n := range answer.Actions {
			if a := &answer.Actions[n]; a.Take != nil {
				verb, name := a.Verb, a.Target
				a.Hash = func() ([]plan.FileHash, error) { return hashFiles(ctx, h, verb, name) }
			}
		}
	}
	return answer, errors.Join(err, foreignErr)
}

func (i item) plan(ctx context.Context, h *host.Host) (plan.Answer, error) {
	d := &rule.Draft{Ctx: ctx, Host: h, Run: i.Run}
	i.Rule.Plan(d, i.planPaths)
	if i.Own {
		if refused := i.judge(ctx, h, d.Answer.Actions); refused != nil {
			return plan.Answer{}, errors.Join(d.Err, refused)
		}
	}
	return d.Answer, d.Err
}

func (i item) planPaths(d *rule.Draft) {
	names := d.Matching(d.Paths...)
	kept := findKeeps(d, i.Keep)
	if d.Err != nil {
		return
	}
	var errs []error
	for _, name := range names {
		found, err := planKeeping(d.Host, i.Verb, name, i.Why, kept)
		d.Answer.Add(found)
		errs = append(errs, err)
	}
	if !d.Failed(errors.Join(errs...)) && i.NeverOwned != nil {
		left, err := i.spareOwned(d.Ctx, d.Host, d.Answer.Actions)
		d.Failed(err)
		d.Answer.Actions = left
	}
}

// hashFiles hashes every regular file at and below name, following no links.
// The folder itself may be a link if the verb empties it.
func hashFiles(ctx context.Context, h *host.Host, verb plan.Verb, name string) ([]plan.FileHash, error) {
	if st, err := h.Files.Lstat(name); err == nil && st.Mode()&fs.ModeSymlink != 0 && verb == plan.Remove {
		return nil, nil
	}
	var files []plan.FileHash
	_, err := h.Files.Walk(ctx, name, name, func(e host.Entry, err error) error {
		if err != nil || !e.Mode().IsRegular() {
			return err
		}
		in, err := e.Open()
		if rule.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		f, err := rule.HashFile(ctx, in, e.Path)
		files = append(files, f)
		return err
	})
	return files, err
}
