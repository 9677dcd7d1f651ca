package diskdiff

import (
	"maps"
	"slices"

	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// Package is a package whose version differs. Without Before, the package was added;
// without After, it was removed.
type Package struct {
	Name   string  `json:"name"`
	Before *string `json:"before"`
	After  *string `json:"after"`
	// Files is the number of files that differ and that the package owns.
	Files int `json:"files"`
}

// packagesOf compares the installed packages and sorts them by name.
func packagesOf(before, after packages.Installed) []Package {
	was, is := versions(before), versions(after)
	names := maps.Clone(was)
	maps.Copy(names, is)
	list := []Package{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p := Package{Name: name}
		if v, ok := was[name]; ok {
			p.Before = &v
		}
		if v, ok := is[name]; ok {
			p.After = &v
		}
		if p.Before == nil || p.After == nil || *p.Before != *p.After {
			list = append(list, p)
		}
	}
	return list
}

// versions are the versions by name.
func versions(all packages.Installed) map[string]string {
	list := map[string]string{}
	for _, p := range all {
		list[p.Name] = p.Version
	}
	return list
}

// nameOf is the name of the package that an owner of files is.
func nameOf(owner string, all packages.Installed) string {
	if p, ok := all[owner]; ok {
		return p.Name
	}
	return owner
}
