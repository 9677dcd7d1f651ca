//go:build !agent

package main

import (
	"fmt"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/diskaudit"
	"github.com/eksnode/packer-plugin-eksnode/internal/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// print prints the summary, then packages, then files that no changed package explains.
func (d *diskComparison) print(p *printer) error {
	r := d.found.Result
	if r.Blocks.By != "" {
		how := "by content, without free space"
		if r.Blocks.By == diskdiff.ByLineage {
			how = "as EBS lists them"
		}
		p.line("blocks: %s, %s", r.Blocks, how)
		if was, is := r.Roots[0], r.Roots[1]; was.FileSystem != is.FileSystem {
			p.line("file systems: %s -> %s", was.FileSystem, is.FileSystem)
		}
	}
	p.line("packages: %s", signs(r.Packages, func(k diskdiff.Package) (bool, bool) { return k.Before != nil, k.After != nil }))
	p.line("files: %s", signs(r.Files, func(f diskdiff.File) (bool, bool) { return f.Before != nil, f.After != nil }))
	groups := map[string][]diskdiff.File{}
	for _, f := range r.Files {
		groups[f.Group] = append(groups[f.Group], f)
	}
	for _, one := range []struct{ group, what string }{
		{diskdiff.OfChangedPackage, "of changed packages"}, {diskdiff.OfSamePackage, "of packages with the same version"}, {diskdiff.OfNoPackage, "of no package"},
	} {
		p.line("  %s: %d", one.what, len(groups[one.group]))
	}
	for _, k := range r.Packages {
		printPackage(p, k)
	}
	printFiles(p, "files of packages with the same version", groups[diskdiff.OfSamePackage])
	printFiles(p, "files of no package", groups[diskdiff.OfNoPackage])
	for _, note := range d.found.Notes {
		p.line("note: %s", line(note))
	}
	return p.err
}

// signs counts what was changed, added and removed.
func signs[T any](list []T, of func(T) (was, is bool)) string {
	changed, added, removed := 0, 0, 0
	for _, one := range list {
		switch was, is := of(one); {
		case was && is:
			changed++
		case is:
			added++
		default:
			removed++
		}
	}
	return fmt.Sprintf("%d changed, %d added, %d removed", changed, added, removed)
}

func printPackage(p *printer, k diskdiff.Package) {
	files := show.Count(k.Files, "file")
	switch {
	case k.Before == nil:
		p.line("+ package %s: %s (%s)", line(k.Name), line(*k.After), files)
	case k.After == nil:
		p.line("- package %s: %s (%s)", line(k.Name), line(*k.Before), files)
	default:
		p.line("~ package %s: %s -> %s (%s)", line(k.Name), line(*k.Before), line(*k.After), files)
	}
}

// printFiles prints files. A directory that was added or removed has one line with all
// that is in it.
func printFiles(p *printer, title string, list []diskdiff.File) {
	if len(list) == 0 {
		return
	}
	p.line("%s:", title)
	for len(list) > 0 {
		f := list[0]
		list = list[1:]
		owner := ""
		if f.Package != "" {
			owner = " (" + line(f.Package) + ")"
		}
		if f.Before != nil && f.After != nil {
			p.line("~ %s%s: %s", shown(f.Name), owner, line(strings.Join(f.Differs, ", ")))
			continue
		}
		state, sign := f.After, "+"
		if f.After == nil {
			state, sign = f.Before, "-"
		}
		inside := 0
		for state.Type == diskaudit.Directory && inside < len(list) && strings.HasPrefix(list[inside].Name, f.Name+"/") && (list[inside].Before == nil) == (f.Before == nil) {
			inside++
		}
		list = list[inside:]
		switch {
		case inside > 0:
			p.line("%s %s%s: directory with %s", sign, shown(f.Name), owner, show.Count(inside, "other file"))
		default:
			p.line("%s %s%s: %s", sign, shown(f.Name), owner, state.Type)
		}
	}
}
