//go:build !agent

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/disk/diskdiff"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/page"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// fleetReport is what `eksnode fleet audit --output json` prints.
type fleetReport struct {
	Region string      `json:"region"`
	Nodes  []fleetNode `json:"nodes"`
	Drift  []drift     `json:"drift"`
}

type fleetNode struct {
	Instance string `json:"instance"`
	AMI      string `json:"ami"`
	// Blocks are the blocks of 512 KiB that have changed.
	Blocks int `json:"blocks"`
	// State is the number of changed files that nodes change while they work.
	State    int            `json:"state"`
	Findings []fleetFinding `json:"findings"`
	Error    string         `json:"error,omitempty"`
	// Boots are those that the node's journal has.
	Boots []plan.Boot `json:"boots,omitempty"`
	// Taken is when the snapshot was made.
	Taken time.Time `json:"snapshot_time,omitzero"`
}

type fleetFinding struct {
	Rule string `json:"rule"`
	plan.Finding
}

// drift is a change on some of the nodes.
type drift struct {
	Kind   string   `json:"kind"` // one of package, program and configuration
	Name   string   `json:"name"`
	Change string   `json:"change"`
	Nodes  []string `json:"nodes"`
}

// driftKinds are the folders of a kind of drift. Other files are state.
var driftKinds = []struct {
	kind    string
	folders []string
}{
	{"configuration", []string{"/etc/"}},
	{"program", []string{"/usr/", "/opt/", "/bin/", "/sbin/", "/lib", "/boot/"}},
}

func (r *fleetReport) tables() []page.Table {
	drifted := page.Table{Title: "Changed since the AMI", Head: []string{"kind", "name", "change", "nodes"}}
	for _, d := range r.Drift {
		drifted.Rows = append(drifted.Rows, []string{d.Kind, d.Name, d.Change, strings.Join(d.Nodes, ", ")})
	}
	found := page.Table{Title: "Findings", Head: []string{"node", "rule", "where", "what to do"}}
	nodes := page.Table{Title: "Nodes",
		Head: []string{"node", "AMI", "changed blocks", "changed files of state", "error"}}
	boots := page.Table{Title: "Boots", Head: []string{"node", "from", "to"}}
	for _, n := range r.Nodes {
		for _, b := range n.Boots {
			boots.Rows = append(boots.Rows, []string{n.Instance, page.Time(b.Started), page.Time(b.Ended)})
		}
		for _, one := range n.Findings {
			found.Rows = append(found.Rows, []string{n.Instance, one.Rule, one.Target, one.Reason})
		}
		nodes.Rows = append(nodes.Rows,
			[]string{n.Instance, n.AMI, strconv.Itoa(n.Blocks), strconv.Itoa(n.State), n.Error})
	}
	return []page.Table{drifted, found, nodes, boots}
}

func (r *fleetReport) add(node string, one *fleetNode, found diskdiff.Result) {
	for _, p := range found.Packages {
		r.on(node, drift{Kind: "package", Name: p.Name, Change: versionText(p.Before) + " to " + versionText(p.After)})
	}
	for _, file := range found.Files {
		kind := ""
		for _, k := range driftKinds {
			if slices.ContainsFunc(k.folders,
				func(folder string) bool { return strings.HasPrefix(file.Name, folder) }) {
				kind = k.kind
			}
		}
		if kind == "" || file.Group == diskdiff.OfChangedPackage {
			one.State++
			continue
		}
		r.on(node, drift{Kind: kind, Name: file.Path, Change: fileChange(file)})
	}
}

func versionText(version *string) string {
	if version == nil {
		return "none"
	}
	return *version
}

func (r *fleetReport) on(node string, d drift) {
	same := slices.IndexFunc(r.Drift, func(o drift) bool {
		return o.Kind == d.Kind && o.Name == d.Name &&
			o.Change == d.Change
	})
	if same < 0 {
		same, r.Drift = len(r.Drift), append(r.Drift, d)
	}
	r.Drift[same].Nodes = append(r.Drift[same].Nodes, node)
}

// nodesMost are the nodes that a line of drift names.
const nodesMost = 3

func (r *fleetReport) print(cmd *cobra.Command, output string) error {
	j := judge("fleet audit", r.cases(), r, r.text)
	if slices.ContainsFunc(r.Nodes, func(n fleetNode) bool { return n.Error != "" }) {
		j.Result = plan.Unknown // also with findings on other nodes
	}
	return j.print(cmd, output)
}

func (r *fleetReport) cases() (list []plan.Case) {
	page := plan.About{Page: "amis.md"}
	for _, d := range r.Drift {
		level := plan.Fails
		if d.Kind == "configuration" {
			level = plan.Warns
		}
		list = append(list, plan.Case{
			ID: "drift-" + d.Kind, Name: "changed since the AMI: " + d.Kind, About: page, Level: level,
			Remedy: "Replace the nodes, or build a new AMI.",
			Text: fmt.Sprintf("%s (%s) on %s: %s", d.Name, d.Change, show.Count(len(d.Nodes), "node"),
				strings.Join(d.Nodes, ", ")),
		})
	}
	for _, n := range r.Nodes {
		for _, found := range n.Findings {
			list = append(list, plan.Case{
				ID: found.Rule, About: plan.About{Page: "reference/rules.md"}, Level: plan.Fails,
				Text:  fmt.Sprintf("%s: %s (%s)", n.Instance, found.Target, found.Reason),
				Place: plan.Place{File: found.Target},
			})
		}
		one := plan.Case{ID: "node", Name: "node is read", About: page, Text: n.AMI}
		if n.Error != "" {
			one.Error = n.Instance + ": " + n.Error
		}
		list = append(list, one)
	}
	return list
}

func (r *fleetReport) text(p *printer) {
	for _, d := range r.Drift {
		on := d.Nodes
		if len(on) > nodesMost {
			on = append(slices.Clone(on[:nodesMost]), "…")
		}
		p.line("%-13s  %s  (%s)  %d of %d: %s", d.Kind, show.Line(d.Name), d.Change, len(d.Nodes), len(r.Nodes),
			strings.Join(on, ", "))
	}
	for _, n := range r.Nodes {
		for _, found := range n.Findings {
			p.line("finding        %s: %s  (%s)", n.Instance, show.Line(found.Target), found.Reason)
		}
		if n.Error != "" {
			p.line("unknown        %s: %s", n.Instance, show.Line(n.Error))
			continue
		}
		p.line("%s of %s: %s changed, %s of state, %s", n.Instance, n.AMI, show.Count(n.Blocks, "block"),
			show.Count(n.State, "file"), show.Count(len(n.Findings), "finding"))
	}
}
