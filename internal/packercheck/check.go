// Package packercheck finds mistakes in Packer templates that `packer validate` cannot
// see, because Packer shows a plugin one block at a time: the order of provisioners, a
// report that two of them write, fields of the source that a scrub does not survive.
//
// The templates are read, never evaluated: variables, locals and functions stay
// unknown, and what depends on them is no mistake. The package has no part in the
// agent, so that HCL's weight stays out of the machines.
package packercheck

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Finding is one mistake. A warning does not break the build.
type Finding struct {
	Rule    string `json:"rule"`
	Warning bool   `json:"warning,omitempty"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	// Text says what is wrong, and Remedy what to do.
	Text   string `json:"text"`
	Remedy string `json:"remedy"`
}

// The names of the plugin's components.
const (
	provision = "eksnode"
	scrub     = "eksnode-scrub"
	audit     = "eksnode-audit"
	publish   = "eksnode-publish"
)

// Check returns the mistakes in the files of one template, by file and line. Files
// without a component of eksnode are an error, as are errors of form.
func Check(files []File) ([]Finding, error) {
	t, err := read(files)
	if err != nil {
		return nil, err
	}
	c := &checker{template: t}
	found := false
	for _, b := range t.builds {
		for _, p := range slices.Concat(append(b.chains, b.provisioners)...) {
			found = found || strings.HasPrefix(p.kind, "eksnode")
		}
		for _, u := range b.uses {
			c.order(b, u)
			c.source(b, u)
		}
		c.fields(b)
		c.publishing(b)
	}
	if !found {
		return nil, errors.New("no build has a component of eksnode; name the folder or file with the build")
	}
	c.reports()
	slices.SortStableFunc(c.list, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line)
	})
	return slices.Compact(c.list), nil
}

type checker struct {
	template
	list []Finding
}

func (c *checker) add(rule string, at hcl.Range, remedy, format string, args ...any) {
	c.list = append(c.list, Finding{Rule: rule, File: at.Filename, Line: at.Start.Line,
		Text: fmt.Sprintf(format, args...), Remedy: remedy})
}

func isOurs(p part) bool { return p.kind == provision || p.kind == scrub || p.kind == audit }

// order checks what runs on one machine, in which order.
func (c *checker) order(b build, u use) {
	var scrubbed, provisioned *part
	maybe := false
	for i := range b.provisioners {
		p := &b.provisioners[i]
		runs, certain := p.runs(u)
		maybe = maybe || !certain && p.kind == scrub
		switch {
		case !runs || !certain || p.kind == "shell-local" || p.kind == "breakpoint": // these run on the Packer host
		case p.kind == scrub && scrubbed != nil:
			c.add("two-scrubs", p.place, "keep the last one", "a scrub runs twice; the first is in line %d",
				scrubbed.place.Start.Line)
		case p.kind == scrub:
			scrubbed = p
		case p.kind == audit && scrubbed != nil:
			c.add("audit-after-scrub", p.place, "remove it", "eksnode-scrub in line %d ends with the same audit",
				scrubbed.place.Start.Line)
		case scrubbed != nil:
			c.add("after-scrub", p.place, fmt.Sprintf("move it before eksnode-scrub in line %d",
				scrubbed.place.Start.Line),
				"the provisioner %s runs after the scrub, and what it writes is in the image", p.kind)
		case p.kind == provision && provisioned == nil:
			provisioned = p
		}
	}
	if provisioned != nil && scrubbed == nil && !maybe {
		c.add("no-scrub", provisioned.place, `add provisioner "eksnode-scrub" {} as the last provisioner`,
			"nothing scrubs the machine: keys, machine identity and logs stay in the image")
	}
}

// source checks fields of the source that provisioners depend on.
func (c *checker) source(b build, u use) {
	scrubs := false
	ours := slices.ContainsFunc(b.provisioners, func(p part) bool {
		runs, certain := p.runs(u)
		scrubs = scrubs || runs && certain && p.kind == scrub
		return runs && certain && isOurs(p)
	})
	if !ours {
		return
	}
	if a := u.field("communicator"); a != nil {
		if name, _ := word(a); name == "none" {
			c.add("no-communicator", a.NameRange, "set another communicator, such as ssh",
				`with communicator = "none" no command runs, and Packer reports success`)
		}
	}
	if a := u.field("ssh_pty"); a != nil && isTrue(a) {
		c.add("terminal", a.NameRange, "remove ssh_pty", "a terminal garbles the data of the plugin")
	}
	if a := u.field("shutdown_command"); scrubs && a != nil {
		if command, _ := word(a); slices.Contains(strings.Fields(command), "sudo") {
			c.add("shutdown-command", a.NameRange, "power off by a unit, see docs/build.md, \"Power off with qemu\"",
				"the scrub removes the default user's sudo, so shutdown_command fails and Packer waits until "+
					"its timeout")
		}
	} else if off := u.field("disable_shutdown"); scrubs && u.kind == "qemu" && u.isRead() &&
		(off == nil || !isTrue(off)) {
		c.add("shutdown-command", u.base.place, "set shutdown_command, see docs/build.md, \"Power off with qemu\"",
			"without shutdown_command the builder qemu kills the machine, and the disk may lack what was written last")
	}
	c.tags(u)
}

// tags warns about AMIs that `eksnode ami` and `eksnode preflight` do not recognize.
func (c *checker) tags(u use) {
	if !u.isRead() || u.base.tagged || u.own.tagged || !slices.Contains([]string{"amazon-ebs", "amazon-ebssurrogate",
		"amazon-chroot"}, u.kind) {
		return
	}
	at, a := u.base.place, u.field("tags")
	if a != nil {
		at = a.NameRange
		pairs, wrong := hcl.ExprMap(a.Expr)
		if wrong.HasErrors() || slices.ContainsFunc(pairs, func(p hcl.KeyValuePair) bool {
			name, known := word(&hcl.Attribute{Expr: p.Key})
			return !known || name == "eksnode:kubernetes-version"
		}) {
			return
		}
	}
	c.add("no-tags", at, "set tags = data.eksnode-contents.NAME.tags",
		"without the tag eksnode:kubernetes-version, `eksnode ami` and `eksnode preflight` do not recognize the AMI")
	c.list[len(c.list)-1].Warning = true
}

// isTrue reports whether a field is literally true.
func isTrue(a *hcl.Attribute) bool {
	v, wrong := a.Expr.Value(nil)
	if wrong.HasErrors() {
		return false
	}
	v, err := convert.Convert(v, cty.Bool)
	return err == nil && v.IsKnown() && !v.IsNull() && v.True()
}

// fields checks fields that Packer reads itself, one by one.
func (c *checker) fields(b build) {
	for _, p := range b.provisioners {
		if retries := p.attrs["max_retries"]; isOurs(p) && retries != nil && p.attrs["timeout"] != nil {
			c.add("retries-with-timeout", retries.NameRange, "remove max_retries or timeout",
				"after one timeout, Packer gives every retry a time that has already passed")
		}
	}
}

// publishing checks that eksnode-publish gets an AMI.
func (c *checker) publishing(b build) {
	if slices.ContainsFunc(b.uses, func(u use) bool { return u.kind == "" || strings.HasPrefix(u.kind, "amazon-") }) {
		return
	}
	for _, chain := range b.chains {
		made := false
		for _, p := range chain {
			if p.kind == publish && !made {
				c.add("publish-without-ami", p.place, "put it after eksnode-ami, in the same post-processors block",
					"eksnode-publish gets the artifact of the builder, which is no AMI")
			}
			made = made || p.kind == "eksnode-ami" || p.kind == "amazon-import"
		}
	}
}

// written is a report that a provisioner of a build writes.
type written struct {
	build int
	by    part
	path  *hcl.Attribute
	text  string
	uses  []string // sources for which the provisioner certainly runs; "" for those of a dynamic block
	split bool     // the path has a part that differs by source
}

// reports finds report files that two builds or two provisioners write.
func (c *checker) reports() {
	var all []written
	for i, b := range c.builds {
		for _, p := range b.provisioners {
			if a := p.attrs["report"]; isOurs(p) && a != nil {
				text := string(a.Expr.Range().SliceBytes(c.text[a.Expr.Range().Filename]))
				w := written{build: i, by: p, path: a, text: text, split: differsBySource(a)}
				for _, u := range b.uses {
					if runs, certain := p.runs(u); runs && certain {
						w.uses = append(w.uses, u.id)
					}
				}
				all = append(all, w)
			}
		}
	}
	const remedy = "give each provisioner and each build a file of its own, such as reports/scrub-${source.name}.json"
	for i, w := range all {
		if len(w.uses) > 1 && !w.split {
			c.add("shared-report", w.path.NameRange, remedy, "%d builds write the report %s", len(w.uses), w.text)
		}
		for _, earlier := range all[:i] {
			shared := slices.ContainsFunc(w.uses, func(id string) bool { return slices.Contains(earlier.uses, id) })
			if w.text == earlier.text && (shared && w.build == earlier.build || !w.split) {
				c.add("shared-report", w.path.NameRange, remedy,
					"the report %s is also that of the provisioner %s in %s:%d", w.text, earlier.by.kind,
					earlier.by.place.Filename, earlier.by.place.Start.Line)
				break
			}
		}
	}
}

// differsBySource reports whether an expression has a value of the source, such as
// source.name or build.ID.
func differsBySource(a *hcl.Attribute) bool {
	return slices.ContainsFunc(a.Expr.Variables(), func(v hcl.Traversal) bool {
		if len(v) > 1 && v.RootName() == "build" {
			step, named := v[1].(hcl.TraverseAttr)
			return !named || step.Name != "name"
		}
		return v.RootName() == "source"
	})
}
