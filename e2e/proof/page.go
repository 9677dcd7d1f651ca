//go:build linux

package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

// accepted reads the reports that were accepted, newest first.
func accepted(folder string) (all []report, err error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var r report
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b report) int { return b.Begun.Compare(a.Begun) })
	return all, nil
}

// sentence is what README.md says about AWS.
func sentence(all []report) string {
	if len(all) == 0 {
		return "**Not tested on AWS yet.**"
	}
	return fmt.Sprintf("**Tested on AWS on %s** ([proofs](docs/design/proofs.md)).", all[0].Begun.Format(time.DateOnly))
}

//go:embed page.tmpl report.tmpl
var texts embed.FS

// written fills in a template.
func written(name string, data any) string {
	all := template.New("").Funcs(template.FuncMap{"cell": strings.NewReplacer("\n", " ", "|", "/").Replace})
	var out strings.Builder
	if err := template.Must(all.ParseFS(texts, name)).ExecuteTemplate(&out, name, data); err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}

// page is docs/design/proofs.md.
func page(all []report) string {
	minutes, dollars := estimate(steps)
	return written("page.tmpl", map[string]any{"Reports": all, "Minutes": minutes, "Dollars": dollars, "Steps": steps})
}
