package scrub

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
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
		a, err := rule.PlanPath(h, verb, name, why)
		errs = append(errs, err)
		answer.Add(a)
	}
	return answer, errors.Join(errs...)
}

// keeps are the places that a rule leaves although its paths match them. A kept
// place includes everything below it and the links that lead to it. Places are
// resolved on the machine, after all links.
type keeps []string

func findKeeps(d *rule.Draft, patterns []string) (found keeps) {
	for _, name := range d.Known(patterns...) { // foreign mounts always stay
		_, own, err := d.Host.Trail(name, false)
		links, led, errLed := d.Host.Trail(name, true)
		d.Failed(errors.Join(err, errLed))
		found = append(append(found, own, led), links...)
	}
	return found
}

// cover reports whether a place, or a folder above it, is kept.
func (k keeps) cover(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return rule.Within(kept, place) })
}

// inside reports whether something below a place is kept.
func (k keeps) inside(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return kept != place && rule.Within(place, kept) })
}

// spare lists what may be removed from a folder with kept contents: its other
// entries, and those of the folders on the way to the kept ones.
func (k keeps) spare(h *host.Host, folder string) ([]string, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if rule.LeadsNowhere(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		switch {
		case k.cover(name):
		case k.inside(name):
			below, err := k.spare(h, name)
			if err != nil {
				return nil, err
			}
			names = append(names, below...)
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// neededPlaces maps places that must stay on this machine to the reason.
type neededPlaces map[string]string

// neededHere returns the homes of people and the files that the manifest
// records.
func neededHere(h *host.Host) (neededPlaces, error) {
	needed := neededPlaces{}
	add := func(name, why string, follow bool) error {
		_, place, err := h.Trail(name, follow)
		if err == nil && place != "/" {
			needed[place] = why
		}
		return err
	}
	d := &rule.Draft{Host: h}
	for _, a := range d.Accounts() {
		if !rule.IsPerson(a.UID) {
			continue
		}
		if err := add(a.Home, fmt.Sprintf("home of %.80q", a.Name), true); err != nil {
			return nil, err
		}
	}
	m, err := manifest.Load(h)
	if err = errors.Join(d.Err, err); err != nil || m == nil {
		return needed, err
	}
	for _, name := range m.Paths() {
		if err := add(name, "the image's manifest records it", false); err != nil {
			return nil, err
		}
	}
	return needed, nil
}

// check refuses a needed place and every folder above one.
func (n neededPlaces) check(target, place string) error {
	parts := rule.Split(place)
	if len(parts) == 0 {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, rule.ErrTooHigh)
	}
	if err := rule.CheckNeeded(parts, func(part, name string) bool { return part == name }); err != nil {
		return fmt.Errorf("%s is %s on this machine and %w", target, place, err)
	}
	for name, why := range n {
		if rule.Within(place, name) {
			return fmt.Errorf("removing %s would remove %s, which must stay: %s; list other files instead", target,
				name, why)
		}
	}
	return nil
}
