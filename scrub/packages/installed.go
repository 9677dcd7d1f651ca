package packages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// Package is an installed package. Of packages that are installed in several versions,
// such as kernels, Version has all, separated by commas.
type Package struct{ Name, Version string }

// Installed are the installed packages, by the name that an owner of files has.
type Installed map[string]Package

// ReadInstalled reads the packages in every package database of the machine. A machine
// without a database has none.
func ReadInstalled(ctx context.Context, h *host.Host) (Installed, error) {
	all := Installed{}
	for _, d := range databases() {
		if err := d.installed(ctx, h, all); err != nil {
			return nil, fmt.Errorf("reading the installed packages: %w", err)
		}
	}
	return all, nil
}

// add adds a version of a package.
func (all Installed) add(owner, name, version string) {
	known := all[owner]
	var versions []string
	if known.Version != "" {
		versions = strings.Split(known.Version, ", ")
	}
	versions = append(versions, version)
	slices.Sort(versions)
	all[owner] = Package{name, strings.Join(slices.Compact(versions), ", ")}
}

// Of returns the package that owns a place, or "". A place that several packages own,
// such as /usr/bin, is no package's own.
func (o *Owners) Of(place string) string {
	at, found := slices.BinarySearchFunc(o.files, place, func(f owned, place string) int { return strings.Compare(f.place, place) })
	if !found || slices.ContainsFunc(o.at(at), func(f owned) bool { return f.owner != o.files[at].owner }) {
		return ""
	}
	return o.files[at].owner
}

// at returns all entries of a place, from the first one on.
func (o *Owners) at(first int) []owned {
	end := first
	for end < len(o.files) && o.files[end].place == o.files[first].place {
		end++
	}
	return o.files[first:end]
}
