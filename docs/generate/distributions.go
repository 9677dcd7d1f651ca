package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/lifecycle"
)

// fact is a property of a distribution, as the page shows it.
type fact struct{ Name, Value string }

// facts are the properties that can be the same on many distributions. Each
// distribution has all of them, in this order.
func facts(d distros.Distro) []fact {
	list := []fact{{"identified by", "`ID=" + strings.Join(d.OSRelease, "` or `ID=") + "`"}}
	for _, role := range distros.Roles {
		list = append(list, fact{"packages for " + string(role), packages(d.Packages[role])})
	}
	for _, option := range distros.Options {
		value := "not supported"
		if d.Can(option) {
			value = packages(d.OptionPackages[option])
		}
		list = append(list, fact{"packages for `" + string(option) + "`", value})
	}
	driver := "not supported"
	if len(d.NVIDIA.Open) > 0 {
		driver = packages(d.NVIDIA.Open)
	}
	list = append(list, fact{"packages for `nvidia` with open modules", driver})
	fips := d.FIPS.Enable
	fips = cmp.Or(fips, "not supported: "+d.FIPS.None)
	return append(list,
		fact{"levels of `hardening`", levels(d.Guide)},
		fact{"network", capability(d.Network.Name, d.Network.Settings)},
		fact{"security module", d.Security.Name},
		fact{"clock", capability(d.Time.Name, d.Time.Settings)},
		fact{"FIPS mode", fips},
		fact{"kernel arguments", d.Kernel.Name},
		fact{"folder for commands", "`" + d.CommandFolder + "`"},
		fact{"folder for units", "`" + d.UnitFolder + "`"},
		fact{"certificate authorities",
			fmt.Sprintf("`%s/*%s`, then `%s`", d.CAAnchors, d.CASuffix, strings.Join(d.CARefresh, " "))},
		fact{"default user", "`" + d.DefaultUser + "`"},
	)
}

func levels(g distros.Guide) string {
	if len(g.Packages) == 0 {
		return "none"
	}
	return code(g.Levels) + " with " + code(g.Packages)
}

func packages(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return code(names)
}

// common are the facts that more than half of these distributions share.
func common(of []distros.Distro) []fact {
	var shared []fact
	for i := range facts(of[0]) {
		count := map[fact]int{}
		for _, d := range of {
			f := facts(d)[i]
			if count[f]++; count[f] == len(of)/2+1 {
				shared = append(shared, f)
			}
		}
	}
	return shared
}

// families are, by package manager, the facts that most of several distributions share
// and that are not the common ones.
func families() map[string][]fact {
	members, usual := map[string][]distros.Distro{}, common(distros.All())
	for _, d := range distros.All() {
		name := d.PackageManager.Name()
		members[name] = append(members[name], d)
	}
	found := map[string][]fact{}
	for name, of := range members {
		if len(of) > 1 {
			found[name] = slices.DeleteFunc(common(of), func(f fact) bool { return slices.Contains(usual, f) })
		}
	}
	return found
}

// differing are the facts of a distribution that are neither those of its family nor,
// where the family has none, the common ones.
func differing(d distros.Distro) []fact {
	own := families()[d.PackageManager.Name()]
	usual := slices.DeleteFunc(common(distros.All()), func(c fact) bool {
		return slices.ContainsFunc(own, func(f fact) bool { return f.Name == c.Name })
	})
	usual = append(usual, own...)
	return slices.DeleteFunc(facts(d), func(f fact) bool { return slices.Contains(usual, f) })
}

// inShort are facts as items of a list, those about packages in one.
func inShort(all []fact) []string {
	const about = "packages for "
	var items, packages []string
	for _, f := range all {
		if what, found := strings.CutPrefix(f.Name, about); found {
			packages = append(packages, what+": "+f.Value)
		} else {
			items = append(items, f.Name+": "+f.Value)
		}
	}
	if packages != nil {
		items = slices.Insert(items, 0, "packages:\n    - "+strings.Join(packages, "\n    - "))
	}
	return items
}

// named is a part of distributions, with what it puts into an image.
type named struct {
	Name, Why string
	distros.Settings
}

// Empty says whether the part changes nothing in an image.
func (n named) Empty() bool {
	return n.Why == "" && len(n.Files)+len(n.Masked)+len(n.Removed) == 0
}

// capability is a part's name, as a link where the page describes the part.
func capability(name string, s distros.Settings) string {
	if (named{Name: name, Settings: s}).Empty() {
		return name
	}
	return fmt.Sprintf("[%s](#%s)", name, anchor(name))
}

// parts are the network stacks, clocks and peculiarities that the page
// describes, each once.
func parts() []named {
	var list []named
	add := func(n named) {
		i := slices.IndexFunc(list, func(have named) bool { return have.Name == n.Name })
		switch {
		case n.Empty():
		case i < 0:
			list = append(list, n)
		default: // the same part may mask other paths elsewhere
			for _, m := range n.Masked {
				if !slices.Contains(list[i].Masked, m) {
					list[i].Masked = append(slices.Clip(list[i].Masked), m)
				}
			}
		}
	}
	for _, d := range distros.All() {
		add(named{d.Network.Name, "", d.Network.Settings})
	}
	for _, d := range distros.All() {
		add(named{d.Time.Name, "", d.Time.Settings})
	}
	for _, d := range distros.All() {
		for _, q := range d.Quirks {
			add(named{q.Name, q.Why, q.Settings})
		}
	}
	return list
}

// peculiarities are links to the parts that a distribution names as its quirks.
func peculiarities(d distros.Distro) string {
	var links []string
	for _, q := range d.Quirks {
		links = append(links, fmt.Sprintf("[%s](#%s)", q.Name, anchor(q.Name)))
	}
	return strings.Join(links, ", ")
}

// containerd says in a cell where a distribution's containerd comes from.
func containerd(d distros.Distro) string {
	switch {
	case slices.Contains(d.Upstream, "containerd"):
		return "upstream archive"
	case len(d.Packages[distros.ContainerRuntime]) > 0:
		return "package, " + containerdVersions(d)
	default:
		return "base image, " + containerdVersions(d)
	}
}

func containerdVersions(d distros.Distro) string {
	var list []string
	for _, version := range d.ReleaseNames() {
		if v := d.Releases[version].Containerd; !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	return strings.Join(list, ", ")
}

// byEnd divides the distributions by the day on which the table of versions was checked,
// because pages must not change with the day of their generation.
func byEnd() (current, ended []distros.Distro, err error) {
	day, err := time.Parse(time.DateOnly, lifecycle.Checked)
	current, ended = distros.ByEnd(day)
	return current, ended, err
}

// lastDays are the ends of one support of an asset's lines.
func lastDays(id, support string) string {
	var list []string
	for _, row := range lifecycle.Of(id) {
		if strings.HasPrefix(row.Of, support) {
			list = append(list, row.Version+" "+row.Ends)
		}
	}
	return strings.Join(list, ", ")
}

// endsOf are the ends of all releases of a distribution.
func endsOf(d distros.Distro) []string {
	var all []string
	for _, version := range d.ReleaseNames() {
		for _, e := range d.Releases[version].Ends {
			all = append(all, fmt.Sprintf("[%s](%s) %s", e.Of, e.Source, e.Day))
		}
	}
	return all
}

// sourcesOf are the sources of all images, each once.
func sourcesOf(images []distros.BaseImage) []string {
	var all []string
	for _, i := range images {
		all = append(all, i.Sources...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
