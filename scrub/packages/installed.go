package packages

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/afero"

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
	for _, read := range []func(context.Context, *host.Host, Installed) error{dpkgInstalled, pacmanInstalled, rpmInstalled} {
		if err := read(ctx, h, all); err != nil {
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

// dpkgInstalled reads dpkg's status. The lists of files of a package that can be
// installed for several architectures have the architecture in their names.
func dpkgInstalled(_ context.Context, h *host.Host, all Installed) error {
	status, err := content(h, dpkgStatus)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		field := map[string]string{}
		for line := range strings.Lines(paragraph) {
			if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
				field[name] = strings.TrimSpace(value)
			}
		}
		if field["Package"] == "" || !strings.HasSuffix(field["Status"], " installed") {
			continue
		}
		name := field["Package"]
		if field["Multi-Arch"] == "same" {
			name += ":" + field["Architecture"]
		}
		all.add(name, name, field["Version"])
	}
	return nil
}

// pacmanInstalled reads pacman's descriptions. Owners are the names of the folders.
func pacmanInstalled(_ context.Context, h *host.Host, all Installed) error {
	entries, err := afero.ReadDir(h.Files, pacmanLocal)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		text, err := content(h, path.Join(pacmanLocal, e.Name(), "desc"))
		if isMissing(err) {
			continue
		}
		if err != nil {
			return err
		}
		value := func(field string) string {
			_, rest, _ := strings.Cut("\n"+text, "\n%"+field+"%\n")
			first, _, _ := strings.Cut(rest, "\n")
			return first
		}
		all.add(e.Name(), value("NAME"), value("VERSION"))
	}
	return nil
}

// rpmInstalled queries rpm.
func rpmInstalled(ctx context.Context, h *host.Host, all Installed) error {
	out, err := RPM(ctx, h, `%{NAME}\t%{EVR}\n`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		if name, version, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			all.add(name, name, version)
		}
	}
	return nil
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
