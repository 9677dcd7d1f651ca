package main

import (
	"fmt"
	"slices"
	"strings"
)

// componentPages are the components, each with its page. Of the components with the same
// field, the first one's page describes the field, and the others link to it.
var componentPages = []struct{ Component, Page string }{
	{"eksnode", "provisioner-eksnode"},
	{"scrub", "provisioner-eksnode-scrub"},
	{"ami", "post-processor-ami"},
	{"disk", "builder-disk"},
	{"publish", "post-processor-publish"},
	{"baseami", "data-source-base-ami"},
	{"cluster", "data-source-cluster"},
	{"contents", "data-source-contents"},
}

// short is the number of words of a text that costs no more than a link.
const short = 8

// linkedFields are the fields of a component on a page, with links to those that an
// earlier page describes with the same text.
func linkedFields(root, component, page string, without ...string) (fieldLists, error) {
	lists, err := readFields(root, component, without...)
	if err != nil {
		return lists, err
	}
	for _, home := range componentPages {
		if home.Page == page {
			break
		}
		others, err := readFields(root, home.Component)
		if err != nil {
			return lists, err
		}
		for _, list := range [][]field{lists.Required, lists.Optional} {
			for i, f := range list {
				if slices.Contains(others.all(), f) && len(strings.Fields(f.Text)) > short {
					list[i].Text = fmt.Sprintf("As in [`%s`](%[1]s.md#fields).", home.Page)
				}
			}
		}
	}
	return lists, nil
}

// optionPages are the components whose fields are flags of commands too, by command. Their
// pages describe the options, the pages of the commands only name the flags.
var optionPages = map[string]struct{ Component, Page string }{
	"provision":  {"eksnode", "provisioner-eksnode"},
	"build":      {"eksnode", "provisioner-eksnode"},
	"scrub":      {"scrub", "provisioner-eksnode-scrub"},
	"ami import": {"ami", "post-processor-ami"},
}

// few is the number of commands whose pages repeat a flag.
const few = 2

// sharedFlags are the flags that more than a few commands have with the same text.
func sharedFlags(commands []command) []field {
	count := map[field]int{}
	var shared []field
	for _, c := range every(commands) {
		for _, f := range c.allFlags() {
			if count[f]++; count[f] == few+1 {
				shared = append(shared, f)
			}
		}
	}
	slices.SortFunc(shared, func(a, b field) int { return strings.Compare(bare(a)+a.Text, bare(b)+b.Text) })
	return shared
}

func every(commands []command) []command {
	var all []command
	for _, c := range commands {
		all = append(all, c.all()...)
	}
	return all
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
	about := optionPages[c.Name]
	h := flagHomes{Page: about.Page}
	var options []field
	if about.Component != "" {
		lists, err := readFields(root, about.Component)
		if err != nil {
			return h, err
		}
		options = lists.all()
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
