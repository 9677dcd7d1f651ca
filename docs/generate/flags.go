package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// documented are the components, whose pages describe their fields. Of those with the
// same field, the first one's page describes it, and the others link to it. The pages of
// commands whose flags are such fields only name the flags. Web is the place of the page's
// copy for Packer's registry.
var documented = []struct {
	Folder, Page, Web string
	Commands          []string
}{
	{"eksnode", "provisioner-eksnode", "provisioner/eksnode", []string{"provision", "build"}},
	{"scrub", "provisioner-eksnode-scrub", "provisioner/scrub", []string{"scrub"}},
	{"scrub", "provisioner-eksnode-audit", "provisioner/audit", nil},
	{"ami", "post-processor-ami", "post-processor/ami", []string{"ami import"}},
	{"disk", "builder-disk", "builder/disk", nil},
	{"publish", "post-processor-publish", "post-processor/publish", nil},
	{"baseami", "data-source-base-ami", "data-source/base-ami", nil},
	{"cluster", "data-source-cluster", "data-source/cluster", nil},
	{"contents", "data-source-contents", "data-source/contents", nil},
}

// short is the number of words of a text that costs no more than a link.
const short = 8

// linkedFields are the fields of a page's component, with links to those that an earlier
// page describes with the same text.
func linkedFields(root, page string, without ...string) (fieldLists, error) {
	homes := map[field]string{}
	for _, c := range documented {
		if c.Page == page {
			lists, err := readFields(root, c.Folder, without...)
			for _, list := range [][]field{lists.Required, lists.Optional} {
				for i, f := range list {
					if home := homes[f]; home != "" && len(strings.Fields(f.Text)) > short {
						list[i].Text = fmt.Sprintf("As in [`%s`](%[1]s.md#fields).", home)
					}
				}
			}
			return lists, err
		}
		lists, err := readFields(root, c.Folder)
		if err != nil {
			return lists, err
		}
		for _, f := range lists.all() {
			homes[f] = cmp.Or(homes[f], c.Page)
		}
	}
	return fieldLists{}, fmt.Errorf("docs/generate has no component for the page %s", page)
}

// few is the number of commands whose pages repeat a flag.
const few = 2

// sharedFlags are the flags that more than a few commands have with the same text.
func sharedFlags(commands []command) []field {
	count := map[field]int{}
	var shared []field
	for _, top := range commands {
		for _, c := range top.all() {
			for _, f := range c.allFlags() {
				if count[f]++; count[f] == few+1 {
					shared = append(shared, f)
				}
			}
		}
	}
	slices.SortFunc(shared, func(a, b field) int { return strings.Compare(bare(a)+a.Text, bare(b)+b.Text) })
	return shared
}

func (c command) allFlags() []field { return slices.Concat(c.Flags, c.Global) }

// bare is a flag's name without its letter.
func bare(f field) string { return f.Name[strings.Index(f.Name, "--"):] }

// flagHomes are a command's flags, by the page that describes them.
type flagHomes struct {
	Own, Options, Shared []field
	// Page is the component's page with the options.
	Page string
}

// homes divides a command's flags.
func homes(root string, commands []command, c command) (flagHomes, error) {
	var h flagHomes
	var options []field
	for _, about := range documented {
		if slices.Contains(about.Commands, c.Name) {
			lists, err := readFields(root, about.Folder)
			if err != nil {
				return h, err
			}
			h.Page, options = about.Page, lists.all()
		}
	}
	shared := sharedFlags(commands)
	for _, f := range c.allFlags() {
		isOption := func(option field) bool {
			return bare(f) == "--"+strings.ReplaceAll(option.Name, "_", "-") && helpOf(option.Text, options) == f.Text
		}
		switch {
		case slices.ContainsFunc(options, isOption):
			h.Options = append(h.Options, f)
		case slices.Contains(shared, f):
			h.Shared = append(h.Shared, f)
		default:
			h.Own = append(h.Own, f)
		}
	}
	return h, nil
}
