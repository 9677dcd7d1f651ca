package scrub

import (
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// keeps are the places that a rule leaves although its paths match them, as the
// machine names them after all links: what is there, what is below, and the
// links that lead there.
type keeps []string

// findKeeps looks for what patterns keep on this machine.
func findKeeps(h *host.Host, patterns []string) (keeps, error) {
	where, err := places(h, patterns)
	if err != nil {
		return nil, err
	}
	var found keeps
	for _, p := range where {
		names, _, err := p.names(h) // foreign mounts stay anyway
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

// cover says whether a place is kept, by its own name or with a folder above.
func (k keeps) cover(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return within(kept, place) })
}

// inside says whether something below a place is kept.
func (k keeps) inside(place string) bool {
	return slices.ContainsFunc(k, func(kept string) bool { return kept != place && within(place, kept) })
}

// within says whether a place is a folder or lies in it.
func within(folder, place string) bool {
	return place == folder || strings.HasPrefix(place, strings.TrimSuffix(folder, "/")+"/")
}

// spare lists what may go of a folder in which something is kept: its entries,
// and in the folders on the way to what is kept, theirs.
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
