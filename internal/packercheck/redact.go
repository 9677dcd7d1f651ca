package packercheck

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub/secrets"
)

// secretNames match the names of fields and variables whose literal values are hidden.
var secretNames = regexp.MustCompile(`(?i)pass(word|wd|phrase)|secret|credential|bearer|cookie|` +
	`(^|[_-])(token|pwd|auth|psk|pin)\b|connection_string|webhook|` +
	`(private|access|api|auth|license|activation|encryption|signing|deploy)[_-]?key`)

// hidden stands where a secret was.
const hidden = `"REDACTED"`

// redaction is the search for the secrets of a template.
type redaction struct {
	text     []byte
	patterns []secrets.Pattern
	known    []*regexp.Regexp // values that a name declares as secret
	ranges   []hcl.Range
}

// Record returns the texts of templates by the names of their files, as Redacted does.
func Record(paths []string) (map[string]string, error) {
	texts := map[string]string{}
	for _, name := range paths {
		text, err := surface.ReadFile(name)
		if err != nil {
			return nil, err
		}
		base := filepath.Base(name)
		if _, twice := texts[base]; twice {
			return nil, fmt.Errorf("two templates have the name %s; name one of them", base)
		}
		if texts[base], err = Redacted(File{Name: name, Text: text}); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// Redacted returns the text of a template without comments and without secrets: values of
// sensitive variables and locals, literals of fields whose name says so, the same literals
// elsewhere, and strings with a form of a secret. References stay.
func Redacted(f File) (string, error) {
	if !strings.HasSuffix(f.Name, ".pkr.hcl") {
		return "", fmt.Errorf("%s is not a template whose name ends in .pkr.hcl; files with the values of variables "+
			"are not recorded", f.Name)
	}
	if err := bounded(f); err != nil {
		return "", err
	}
	file, wrong := hclsyntax.ParseConfig(f.Text, f.Name, hcl.InitialPos)
	if wrong.HasErrors() {
		return "", formErrors(wrong)
	}
	r := &redaction{text: f.Text, patterns: secrets.All()}
	body := file.Body.(*hclsyntax.Body)
	_ = hclsyntax.VisitAll(body, r.named)
	_ = hclsyntax.VisitAll(body, r.formed)
	tokens, _ := hclsyntax.LexConfig(f.Text, f.Name, hcl.InitialPos)
	for _, token := range tokens {
		if token.Type == hclsyntax.TokenComment {
			r.ranges = append(r.ranges, token.Range)
		}
	}
	slices.SortStableFunc(r.ranges, func(a, b hcl.Range) int { return a.Start.Byte - b.Start.Byte })
	var out []byte
	at := 0
	for _, one := range r.ranges {
		if one.Start.Byte < at {
			continue
		}
		out = append(out, f.Text[at:one.Start.Byte]...)
		at = one.End.Byte
		switch f.Text[one.Start.Byte] {
		case '#', '/': // a comment, which may have the end of its line
			at -= len(one.SliceBytes(f.Text)) - len(bytes.TrimRight(one.SliceBytes(f.Text), "\r\n"))
		default:
			out = append(out, hidden...)
		}
	}
	return string(append(out, f.Text[at:]...)), nil
}

// named hides the values that a name declares as secret.
func (r *redaction) named(n hclsyntax.Node) hcl.Diagnostics {
	switch n := n.(type) {
	case *hclsyntax.Attribute:
		r.hideIf(secretNames.MatchString(n.Name), n.Expr)
	case *hclsyntax.Block:
		sensitive := n.Body.Attributes["sensitive"]
		named := slices.ContainsFunc(n.Labels, secretNames.MatchString)
		if sensitive != nil {
			value, wrong := sensitive.Expr.Value(nil)
			named = named || wrong.HasErrors() || !value.RawEquals(cty.False)
		}
		for _, name := range []string{"default", "expression"} {
			if a := n.Body.Attributes[name]; a != nil && slices.Contains([]string{"variable", "local"}, n.Type) {
				r.hideIf(named, a.Expr)
			}
		}
	case *hclsyntax.ObjectConsExpr:
		for _, i := range n.Items {
			r.hideIf(secretNames.Match(i.KeyExpr.Range().SliceBytes(r.text)), i.ValueExpr)
		}
	}
	return nil
}

func (r *redaction) hideIf(secret bool, e hclsyntax.Expression) {
	if !secret {
		return
	}
	literals := 0
	_ = hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics {
		if l, ok := n.(*hclsyntax.LiteralValueExpr); ok && !l.Val.IsNull() && l.Val.Type() != cty.Bool {
			if text, err := convert.Convert(l.Val, cty.String); err == nil {
				literals++
				r.know(strings.TrimSpace(text.AsString()))
			}
		}
		return nil
	})
	if literals > 0 {
		r.ranges = append(r.ranges, e.Range())
	}
}

// know searches for a value elsewhere, too, but not in a longer word: the password alpine
// is not in the name iso_alpine_3.
func (r *redaction) know(value string) {
	if len(value) > 3 {
		r.known = append(r.known, regexp.MustCompile(`(?:^|\W|\b)`+regexp.QuoteMeta(value)+`(?:$|\W|\b)`))
	}
}

var unescaped = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n", `\r`, "\r", `\t`, "\t")

// formed hides strings that look like secrets, or have a known one.
func (r *redaction) formed(n hclsyntax.Node) hcl.Diagnostics {
	var places []hcl.Range
	switch n := n.(type) {
	case *hclsyntax.TemplateExpr:
		places = []hcl.Range{n.Range()}
	case *hclsyntax.Block:
		places = n.LabelRanges
	}
	for _, p := range places {
		written := string(p.SliceBytes(r.text)) // as it is in a heredoc
		text := written + "\n" + unescaped.Replace(written)
		if slices.ContainsFunc(r.known, func(k *regexp.Regexp) bool { return k.MatchString(text) }) ||
			slices.ContainsFunc(r.patterns, func(p secrets.Pattern) bool {
				return p.Re != nil && p.Re().MatchString(text)
			}) {
			r.ranges = append(r.ranges, p)
		}
	}
	return nil
}
