// Package page writes reports for people: pages for a browser, and summaries in Markdown.
package page

import (
	"bytes"
	_ "embed"
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"slices"
	"strings"
	text "text/template"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.md.tmpl
	summaryText string
)

// bar is a row of a picture: a share of the widest one, in percent.
type bar struct {
	Name, Text string
	Percent    float64
}

// bars are the rows of a picture, of values above 0.
func bars[T any](list []T, value func(T) int64, text func(T) (name, label string)) []bar {
	most := int64(0)
	for _, one := range list {
		most = max(most, value(one))
	}
	var all []bar
	for _, one := range list {
		if v := value(one); v > 0 {
			name, label := text(one)
			all = append(all, bar{name, label, float64(v) * 100 / float64(most)})
		}
	}
	return all
}

// code is a text in Markdown as it is: a code span with a fence that is not in the text.
func code(words ...string) string {
	text := show.Line(strings.TrimSpace(strings.Join(words, " ")))
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + " " + text + " " + fence
}

// Table is a table of a page.
type Table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// Time is a time on a page.
func Time(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// hardened are the rules that a tailoring leaves out, with their reasons.
func hardened(tailoring string) []plan.Check {
	if tailoring == "" {
		return nil
	}
	var list []plan.Check
	var profile struct {
		Selects []struct {
			Rule   string `xml:"idref,attr"`
			Reason string `xml:"remark"`
		} `xml:"Profile>select"`
	}
	if err := xml.Unmarshal([]byte(tailoring), &profile); err != nil {
		return []plan.Check{{Item: "tailoring", Reason: err.Error()}}
	}
	for _, s := range profile.Selects {
		list = append(list, plan.Check{Item: s.Rule, Reason: s.Reason})
	}
	return list
}

// Is reports whether a report file is a page instead of JSON.
func Is(file string) bool {
	return slices.Contains([]string{".html", ".md"}, strings.ToLower(filepath.Ext(file)))
}

// Report is what a file gets for a report: JSON, or a page by the ending of its name.
func Report(file string, r plan.Report) ([]byte, error) {
	if !Is(file) {
		return plan.EncodeJSON(r)
	}
	title := strings.Fields("eksnode " + r.Command + ": " + r.Machine.Distro + " " + r.Machine.Version)
	return Of(file, strings.Join(title, " "), nil, r)
}

// Of is a report for a person, by the ending of its file. In HTML it is one file without
// scripts that requests nothing. In Markdown it is a summary, such as for a pull request.
// The templates escape every text.
func Of(file, title string, tables []Table, reports ...plan.Report) ([]byte, error) {
	functions := template.FuncMap{
		"code": code, "line": show.Line, "size": show.Size,
		"time": Time, "hardened": hardened,
		"boots": func(r plan.Report) []bar {
			return bars(r.Machine.Boots, func(b plan.Boot) int64 { return max(1, int64(b.Ended.Sub(b.Started))) },
				func(b plan.Boot) (string, string) { return Time(b.Started), "to " + Time(b.Ended) })
		},
		"phases": func(r plan.Report) []bar {
			return bars(r.Phases, func(p plan.PhaseTotals) int64 { return p.Milliseconds },
				func(p plan.PhaseTotals) (string, string) {
					return p.Phase, show.Length(time.Duration(p.Milliseconds) * time.Millisecond)
				})
		},
		"removed": func(r plan.Report) []bar {
			if r.Command == "audit" { // which counts what a scrub would remove
				return nil
			}
			return bars(r.Phases, func(p plan.PhaseTotals) int64 { return p.Bytes },
				func(p plan.PhaseTotals) (string, string) {
					return p.Phase, show.Count(p.Entries, "file") + ", " + show.Size(p.Bytes)
				})
		},
		"parts": func(r plan.Report) []bar {
			if r.Image == nil {
				return nil
			}
			return bars(r.Image.Components, func(c plan.Component) int64 { return c.Bytes },
				func(c plan.Component) (string, string) {
					return c.Name + " " + c.Version, show.Size(c.Bytes)
				})
		},
		"skipped": func(r plan.Report) (list []plan.Check) {
			for _, c := range r.Checks() {
				if c.Outcome == plan.LeftOut {
					list = append(list, c)
				}
			}
			return list
		},
		"problems": func(r plan.Report) []plan.Planned { return r.Problems() },
	}
	var t interface {
		Execute(w io.Writer, data any) error
	}
	var err error
	if strings.EqualFold(filepath.Ext(file), ".md") {
		t, err = text.New("summary").Funcs(functions).Parse(summaryText)
	} else {
		t, err = template.New("page").Funcs(functions).Parse(pageText)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the page: %w", err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{"Title": title, "Reports": reports, "Tables": tables})
	if err != nil {
		return nil, fmt.Errorf("writing the page: %w", err)
	}
	return out.Bytes(), nil
}
