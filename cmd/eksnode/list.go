package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// listed is a rule in the output of --list.
type listed struct {
	ID          string   `json:"id"`
	Phase       string   `json:"phase"`
	Action      string   `json:"action"`
	Groups      []string `json:"groups"`
	Distro      string   `json:"distro,omitempty"`
	Paths       []string `json:"paths,omitempty"`
	Keep        []string `json:"keep,omitempty"`
	Owner       string   `json:"owner"`
	Why         string   `json:"why"`
	Regenerated string   `json:"regenerated"`
	Source      string   `json:"source"`
}

// list prints the selected rules: those of the table, of distributions, and of
// --rules-file.
func (s *selection) list(w io.Writer) error {
	if s.out.format != "text" && s.out.format != "json" {
		return fmt.Errorf("--output: --list prints text or json, not %s", s.out.format)
	}
	var all []listed
	add := func(distro string, rules []scrub.Rule) {
		for _, r := range rules {
			if !s.spec.Chooses(r) {
				continue
			}
			all = append(all, listed{
				ID: r.ID, Phase: string(r.Phase), Action: string(r.Verb), Groups: r.Groups, Distro: distro, Paths: r.Paths, Keep: r.Keep,
				Owner: r.Owner, Why: r.Why, Regenerated: r.Regenerated, Source: r.Source,
			})
		}
	}
	add("", scrub.Table())
	for _, d := range distros.All() {
		add(d.ID, d.ScrubRules())
	}
	for _, own := range s.spec.Own {
		add("", []scrub.Rule{own.Rule()})
	}
	if s.out.format == "json" {
		return writeJSON(w, all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RULE\tPHASE\tACTION\tGROUPS\tPATHS")
	for _, r := range all {
		name := r.ID
		if r.Distro != "" {
			name += " (" + r.Distro + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, r.Phase, r.Action, strings.Join(r.Groups, ","), strings.Join(r.Paths, " "))
	}
	return t.Flush()
}
