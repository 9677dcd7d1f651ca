package scrub

import (
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// keeps are the places that a rule leaves although its paths match them. A kept
// place includes everything below it and the links that lead to it. Places are
// resolved on the machine, after all links.
type keeps []string

// findKeeps finds the places that patterns keep on this machine.
func findKeeps(h *host.Host, patterns []string) (keeps, error) {
	where, err := places(h, patterns)
	if err != nil {
		return nil, err
	}
	var found keeps
	for _, p := range where {
		names, _, err := p.names(h) // foreign mounts always stay
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			_, own, err := h.Trail(name, false)
			if err != nil {
				return nil, err
			}
			links, led, err := h.Trail(name, true)
			if err != nil {
				return nil, err
			}
			found = append(append(found, own, led), links...)
		}
	}
	return found, nil
}

// cover reports whether a place, or a folder above it, is kept.
func (k keeps) cover(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return within(kept, place) })
}

// inside reports whether something below a place is kept.
func (k keeps) inside(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return kept != place && within(place, kept) })
}

// within reports whether a place is a folder or is below it.
func within(folder, place string) bool {
	return place == folder || strings.HasPrefix(place, strings.TrimSuffix(folder, "/")+"/")
}

// spare lists what may be removed from a folder with kept contents: its other
// entries, and those of the folders on the way to the kept ones.
func (k keeps) spare(h *host.Host, folder string) ([]string, error) {
	entries, err := afero.ReadDir(h.Files, folder)
	if leadsNowhere(err) {
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
