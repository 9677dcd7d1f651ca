package packercheck

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// File is one file of a template.
type File struct {
	Name string
	Text []byte
}

// HCL's parser calls itself, with up to 8 KB of stack, for each token that can nest
// others. Go's stack ends at 512 MB, with a crash.
const (
	mostBytes   = 256 << 10
	mostNesting = 10_000
)

// bounded returns an error for a file that the parser could not survive.
func bounded(f File) error {
	if len(f.Text) > mostBytes {
		return fmt.Errorf("%s is larger than %d KiB; split the file", f.Name, mostBytes>>10)
	}
	tokens, _ := hclsyntax.LexConfig(f.Text, f.Name, hcl.InitialPos)
	nesting := 0
	for _, token := range tokens {
		switch token.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp,
			hclsyntax.TokenTemplateControl, hclsyntax.TokenBang, hclsyntax.TokenMinus, hclsyntax.TokenQuestion:
			nesting++
		}
	}
	if nesting > mostNesting {
		return fmt.Errorf("%s has %d brackets and operators, and at most %d are read; split the file", f.Name, nesting,
			mostNesting)
	}
	return nil
}

// template is what the rules read of the files.
type template struct {
	sources map[string]part // by "TYPE.NAME"
	builds  []build
	text    map[string][]byte
}

// part is a source, a provisioner or a post-processor.
type part struct {
	kind  string // the first label, such as eksnode-scrub
	place hcl.Range
	attrs hcl.Attributes
	// tagged means that blocks set tags.
	tagged bool
}

type build struct {
	uses         []use
	provisioners []part
	chains       [][]part // post-processors, in sequences
}

// use is a source in a build. Dynamic sources have no id.
type use struct {
	id   string // TYPE.NAME, as in only and except
	kind string // the builder
	own  part   // the fields in the build, which win
	base part
}

// attributes are the fields that rules read.
func attributes(names ...string) *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, name := range names {
		schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
	}
	return schema
}

func blocksOf(types ...string) *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, typed := range types {
		kind, label, _ := strings.Cut(typed, " ")
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind, LabelNames: strings.Fields(label)})
	}
	return schema
}

// read parses the files. All errors of form are joined.
func read(files []File) (template, error) {
	t := template{sources: map[string]part{}, text: map[string][]byte{}}
	var errs []error
	var builds hcl.Blocks
	for _, f := range files {
		if err := bounded(f); err != nil {
			errs = append(errs, err)
			continue
		}
		parser := hclparse.NewParser()
		parse := parser.ParseHCL
		if path.Ext(f.Name) == ".json" {
			parse = parser.ParseJSON
		}
		file, wrong := parse(f.Text, f.Name)
		if wrong.HasErrors() {
			errs = append(errs, formErrors(wrong))
			continue
		}
		t.text[f.Name] = f.Text
		content, _, wrong := file.Body.PartialContent(blocksOf("source type name", "build"))
		errs = append(errs, formErrors(wrong))
		for _, b := range content.Blocks {
			if b.Type == "source" {
				t.sources[b.Labels[0]+"."+b.Labels[1]] = partOf(b)
			} else {
				builds = append(builds, b)
			}
		}
	}
	for _, b := range builds { // a build may use a source of any file
		one, err := t.readBuild(b.Body)
		t.builds, errs = append(t.builds, one), append(errs, err)
	}
	return t, errors.Join(errs...)
}

func formErrors(wrong hcl.Diagnostics) error {
	var errs []error
	for _, d := range wrong {
		if d.Severity == hcl.DiagError && d.Subject != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %s", d.Subject.Filename, d.Subject.Start.Line, d.Summary,
				d.Detail))
		}
	}
	return errors.Join(errs...)
}

func partOf(b *hcl.Block) part {
	content, rest, _ := b.Body.PartialContent(attributes("name", "report", "only", "except", "max_retries", "timeout",
		"communicator", "ssh_pty", "shutdown_command", "disable_shutdown", "tags"))
	tags, _, _ := rest.PartialContent(blocksOf("tag", "dynamic type"))
	p := part{place: b.DefRange, attrs: content.Attributes, tagged: len(tags.Blocks) > 0}
	if len(b.Labels) > 0 {
		p.kind = b.Labels[0]
	}
	return p
}

func (t template) readBuild(body hcl.Body) (build, error) {
	var one build
	content, _, wrong := body.PartialContent(&hcl.BodySchema{
		Attributes: attributes("sources").Attributes,
		Blocks: blocksOf("source ref", "provisioner type", "post-processor type", "post-processors",
			"dynamic type").Blocks,
	})
	if a := content.Attributes["sources"]; a != nil {
		named, known := words(a.Expr)
		if !known {
			one.uses = append(one.uses, use{})
		}
		for _, reference := range named {
			one.uses = append(one.uses, t.used(reference, part{}))
		}
	}
	for _, b := range content.Blocks {
		kind, dynamic := b.Type, false
		if kind == "dynamic" {
			if kind, b = b.Labels[0], unrolled(b); b == nil {
				continue
			}
			dynamic = true
		}
		switch p := partOf(b); kind {
		case "source":
			u := t.used(p.kind, p)
			if name, known := word(p.attrs["name"]); known {
				u.id = u.kind + "." + name
			} else if dynamic || p.attrs["name"] != nil {
				u.id = ""
			}
			one.uses = append(one.uses, u)
		case "provisioner":
			one.provisioners = append(one.provisioners, p)
		case "post-processor":
			one.chains = append(one.chains, []part{p})
		case "post-processors":
			inner, _, bad := b.Body.PartialContent(blocksOf("post-processor type"))
			wrong = append(wrong, bad...)
			var chain []part
			for _, b := range inner.Blocks {
				chain = append(chain, partOf(b))
			}
			one.chains = append(one.chains, chain)
		}
	}
	if len(one.uses) == 0 {
		one.uses = []use{{}}
	}
	return one, formErrors(wrong)
}

// unrolled is the block that a dynamic block repeats; nil if its label is not a
// literal.
func unrolled(b *hcl.Block) *hcl.Block {
	schema := attributes("labels")
	schema.Blocks = blocksOf("content").Blocks
	content, _, _ := b.Body.PartialContent(schema)
	if len(content.Blocks) == 0 {
		return nil
	}
	inner := *content.Blocks[0]
	inner.DefRange = b.DefRange
	if a := content.Attributes["labels"]; a != nil {
		labels, known := words(a.Expr)
		if !known || len(labels) == 0 {
			return nil
		}
		inner.Labels = labels
	}
	return &inner
}

// used resolves a reference such as source.qemu.node or qemu.node.
func (t template) used(reference string, own part) use {
	names := strings.Split(reference, ".")
	if len(names) < 2 {
		return use{own: own}
	}
	id := strings.Join(names[len(names)-2:], ".")
	return use{id: id, kind: names[len(names)-2], own: own, base: t.sources[id]}
}

// field returns a field of a source: that of the build, or of the source block.
func (u use) field(name string) *hcl.Attribute {
	if a := u.own.attrs[name]; a != nil {
		return a
	}
	return u.base.attrs[name]
}

// isRead reports whether the files have the source's block.
func (u use) isRead() bool { return u.base.attrs != nil }

// word returns the value of a field that is a literal.
func word(a *hcl.Attribute) (string, bool) {
	if a == nil {
		return "", false
	}
	v, wrong := a.Expr.Value(nil)
	if wrong.HasErrors() || v.IsNull() || !v.IsWhollyKnown() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}

func words(list hcl.Expression) ([]string, bool) {
	elements, wrong := hcl.ExprList(list)
	if wrong.HasErrors() {
		return nil, false
	}
	var named []string
	for _, e := range elements {
		text, known := word(&hcl.Attribute{Expr: e})
		if !known {
			return named, false
		}
		named = append(named, text)
	}
	return named, true
}

func (p part) runs(u use) (runs, certain bool) {
	for _, field := range []string{"only", "except"} {
		if a := p.attrs[field]; a != nil {
			named, known := words(a.Expr)
			if !known || u.id == "" {
				return false, false
			}
			return slices.Contains(named, u.id) == (field == "only"), true
		}
	}
	return true, true
}
