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

	"github.com/invopop/jsonschema"
)

const (
	ok     = "ok"
	failed = "failed"
)

// call is a call to AWS or a command of eksnode.
type call struct {
	Command string `json:"command"`
	Request string `json:"request_id,omitempty"`
	Failed  bool   `json:"failed,omitempty"`
}

// row is a step of a report.
type row struct {
	Step    string    `json:"step"`
	Does    string    `json:"does"`
	Begun   time.Time `json:"begun"`
	Seconds float64   `json:"seconds"`
	Result  string    `json:"result" jsonschema:"enum=ok,enum=failed"`
	Error   string    `json:"error,omitempty"`
	Calls   []call    `json:"calls"`
	// Evidence is what the step measured or saw.
	Evidence string `json:"evidence,omitempty"`
	// Differences are names in the answers of AWS's calls that the doubles of the tests
	// lack, or that only they have.
	Differences []string `json:"differences,omitempty"`
	// ByHand repeats a step that failed.
	ByHand string `json:"by_hand,omitempty"`
}

// report is the result of a run. It has no account and no keys.
type report struct {
	Schema  string    `json:"schema" jsonschema:"const=eksnode.proof/v1"`
	Eksnode string    `json:"eksnode"`
	Region  string    `json:"region"`
	Family  string    `json:"ip_family" jsonschema:"enum=ipv4,enum=ipv6"`
	Begun   time.Time `json:"begun"`
	Seconds float64   `json:"seconds"`
	Dollars float64   `json:"estimated_dollars"`
	Result  string    `json:"result" jsonschema:"enum=ok,enum=failed"`
	Error   string    `json:"error,omitempty"`
	Steps   []row     `json:"steps"`
	// Left is what the teardown could not delete.
	Left []string `json:"left"`
}

// schema returns the JSON schema of reports.
func schema() string {
	text, _ := json.MarshalIndent((&jsonschema.Reflector{Anonymous: true}).Reflect(report{}), "", "  ") // known to be JSON
	return string(text) + "\n"
}

// Minutes is how long the run took.
func (r report) Minutes() float64 { return r.Seconds / 60 }

// markdown returns the report for people.
func (r report) markdown() string { return written("report.tmpl", r) }

// write writes report.json and report.md, without the account.
func (r report) write(path func(string) string, account string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"report.json": string(text) + "\n", "report.md": r.markdown()} {
		if err := os.WriteFile(path(name), []byte(strings.ReplaceAll(text, account, "ACCOUNT")), 0o600); err != nil {
			return err
		}
	}
	return nil
}

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
