package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// formats are the ways a report can be printed. SARIF is what code-scanning
// services read, JUnit what CI servers read.
var formats = map[string]func(io.Writer, plan.Report) error{
	"text":  printReport,
	"json":  printJSON,
	"sarif": printSARIF,
	"junit": printJUnit,
}

// format is the flag --output: one of the forms that a command can print. The
// first is the default.
type format struct {
	to    *string
	known []string
}

// formatFlag adds --output.
func formatFlag(cmd *cobra.Command, to *string, known ...string) {
	*to = known[0]
	last := len(known) - 1
	cmd.Flags().Var(format{to, known}, "output", "output format: "+strings.Join(known[:last], ", ")+" or "+known[last])
}

// Type is what help calls its value.
func (format) Type() string { return "string" }

func (f format) String() string {
	if f.to == nil { // pflag asks an empty one
		return ""
	}
	return *f.to
}

// Set refuses a form that is not known.
func (f format) Set(value string) error {
	if !slices.Contains(f.known, value) {
		return fmt.Errorf("%q is not known; known: %s", value, strings.Join(slices.Sorted(slices.Values(f.known)), ", "))
	}
	*f.to = value
	return nil
}

func printJSON(w io.Writer, r plan.Report) error {
	return writeJSON(w, r)
}

// writeJSON prints a value as JSON that is safe on a terminal.
func writeJSON(w io.Writer, v any) error {
	text, err := plan.EncodeJSON(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// The parts of SARIF 2.1.0 that say what was found where.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		Results     []sarifResult     `json:"results"`
		Invocations []sarifInvocation `json:"invocations"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"semanticVersion"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations,omitempty"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifLocation struct {
		Physical struct {
			Artifact struct {
				URI string `json:"uri"`
			} `json:"artifactLocation"`
			Region *sarifRegion `json:"region,omitempty"`
		} `json:"physicalLocation"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifInvocation struct {
		Successful    bool          `json:"executionSuccessful"`
		ExitCode      int           `json:"exitCode"`
		Notifications []sarifResult `json:"-"`
	}
)

// newSARIF is a run of this program without results.
func newSARIF() *sarifRun {
	run := &sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{
		Name: "eksnode", Version: version.String(), InformationURI: "https://github.com/eksnode/packer-plugin-eksnode", Rules: []sarifRule{},
	}
	return run
}

// print prints a log with this run alone.
func (r *sarifRun) print(w io.Writer) error {
	return writeJSON(w, sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{*r},
	})
}

// locate is a place in a file. An absolute path becomes a file: URI. Line 0 means
// the whole file.
func locate(file string, line int) sarifLocation {
	u := &url.URL{Path: file}
	if strings.HasPrefix(file, "/") {
		u.Scheme = "file"
	}
	var l sarifLocation
	l.Physical.Artifact.URI = u.String()
	if line > 0 {
		l.Physical.Region = &sarifRegion{line}
	}
	return l
}

func printSARIF(w io.Writer, r plan.Report) error {
	run := newSARIF()
	run.Tool.Driver.Version = r.Tool
	run.Invocations = []sarifInvocation{{
		Successful: r.Result != plan.Failure && r.Result != plan.Unknown, ExitCode: r.Result.ExitCode(),
	}}
	level := "error"
	if r.Result == plan.OK { // of an audit that only warns
		level = "warning"
	}
	for _, p := range problems(r) {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: p.Item})
		for _, left := range leftBy(p) {
			result := sarifResult{RuleID: p.Item, Level: level, Message: sarifText{left.text}}
			if len(left.target) > 1 && left.target[0] == '/' {
				result.Locations = []sarifLocation{locate(left.target, 0)}
			}
			run.Results = append(run.Results, result)
		}
		if p.Error != "" {
			run.Results = append(run.Results, sarifResult{RuleID: p.Item, Level: "warning", Message: sarifText{broken(r) + ": " + p.Error}})
		}
	}
	return run.print(w)
}

// left is one action or finding that a report says is left.
type left struct{ target, text string }

// leftBy is what an item has left.
func leftBy(p plan.Planned) []left {
	var list []left
	for _, a := range p.Actions {
		list = append(list, left{a.Target, fmt.Sprintf("%s %s: %s", a.Verb, a.Target, a.Reason)})
	}
	for _, f := range p.Findings {
		list = append(list, left{f.Target, fmt.Sprintf("finding %s: %s", f.Target, f.Reason)})
	}
	return list
}

// broken says what an item's error means.
func broken(r plan.Report) string {
	if r.Result == plan.Unknown {
		return "could not tell"
	}
	return "failed"
}

// The parts of JUnit's XML that CI servers agree on.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// printJUnit prints a case for each rule that found something, and one for the
// audit as a whole, which fails with them.
func printJUnit(w io.Writer, r plan.Report) error {
	suite := &junitSuite{Name: "eksnode " + r.Command}
	add := func(name, failure, wrong string) {
		c := junitCase{Class: "eksnode." + r.Command, Name: name}
		if wrong != "" {
			c.Error = &junitProblem{Message: broken(r), Text: wrong}
			suite.Errors++
		} else if r.Result == plan.OK { // of an audit that only warns
			c.Out = failure
		} else if failure != "" {
			c.Failure = &junitProblem{Message: "something is left", Text: failure}
			suite.Failures++
		}
		suite.Cases = append(suite.Cases, c)
		suite.Tests++
	}
	for _, p := range problems(r) {
		text := ""
		for _, left := range leftBy(p) {
			text += left.text + "\n"
		}
		add(p.Item, text, p.Error)
	}
	whole, wrong := "", ""
	switch r.Result {
	case plan.Failure, plan.Unknown:
		wrong = r.Error
	case plan.Findings:
		whole = found(r)
	}
	add("all of "+count(r.Totals.Items, "rule"), whole, wrong)
	return suite.print(w)
}

// print prints the suite as XML that is safe on a terminal.
func (s *junitSuite) print(w io.Writer) error {
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(plan.PrintableXML(text))+"\n")
	return err
}
