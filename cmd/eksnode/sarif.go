package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

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

		// found yields the results. There can be as many as files, so that they are
		// printed one after the other.
		found iter.Seq[sarifResult]
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"semanticVersion"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID         string          `json:"id"`
		Short      sarifText       `json:"shortDescription"`
		Full       sarifText       `json:"fullDescription"`
		Help       sarifHelp       `json:"help"`
		HelpURI    string          `json:"helpUri"`
		Properties sarifProperties `json:"properties"`
	}
	sarifHelp struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown"`
	}
	// sarifProperties are not defined by SARIF. Outcome is the rule's in an
	// audit: results list only rules that found something, because code-scanning
	// services show every result as an alert.
	sarifProperties struct {
		Outcome plan.Verdict `json:"outcome,omitempty"`
		Reason  string       `json:"reason,omitempty"`
		Tags    []string     `json:"tags,omitempty"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
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
		Successful    bool                `json:"executionSuccessful"`
		ExitCode      int                 `json:"exitCode"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	// sarifNotification is an error of the run itself.
	sarifNotification struct {
		Level   string    `json:"level"`
		Message sarifText `json:"message"`
	}
)

// newSARIF returns a run of this program without results.
func newSARIF() *sarifRun {
	run := &sarifRun{Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{
		Name: "eksnode", Version: version.String(), InformationURI: version.Repository, Rules: []sarifRule{},
	}
	return run
}

// noResults is the empty list of results in the text of a log.
const noResults = `      "results": []`

func (r *sarifRun) print(w io.Writer) error {
	text, err := plan.EncodeJSON(sarifLog{
		Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{*r},
	})
	if err != nil {
		return err
	}
	// No text of the log has a line like this: JSON escapes the quotes in a text.
	head, tail, _ := bytes.Cut(text, []byte(noResults))
	out := bufio.NewWriter(w)
	_, _ = out.Write(append(head, strings.TrimSuffix(noResults, "]")...)) // Flush returns the error
	const indent = "\n        "
	separator, end := indent, "]"
	for result := range r.found {
		text, err := plan.EncodeJSON(result)
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator)
		_, _ = out.Write(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte(indent)))
		separator, end = ","+indent, "\n      ]"
	}
	_, _ = out.WriteString(end)
	_, _ = out.Write(tail)
	return out.Flush()
}

// result is a result of a rule, which the run describes.
func (r *sarifRun) result(rule string, result sarifResult) sarifResult {
	result.RuleID = rule
	result.RuleIndex = slices.IndexFunc(r.Tool.Driver.Rules, func(o sarifRule) bool { return o.ID == rule })
	return result
}

// describe adds a rule unless it is there.
func (r *sarifRun) describe(rule sarifRule) {
	rules := &r.Tool.Driver.Rules
	if !slices.ContainsFunc(*rules, func(o sarifRule) bool { return o.ID == rule.ID }) {
		*rules = append(*rules, rule)
	}
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

// reportSARIF has a result for each finding, and describes all rules. known are
// the rules that may be in the report.
func reportSARIF(r plan.Report, known []scrub.Rule) *sarifRun {
	run := newSARIF()
	run.Tool.Driver.Version = r.Tool
	run.Invocations = []sarifInvocation{{
		Successful: r.Result != plan.Failure && r.Result != plan.Unknown, ExitCode: r.Result.ExitCode(),
	}}
	describe := func(id string, c plan.Check) sarifRule {
		rule := itemSARIF(id, r.Command, known)
		rule.Properties.Outcome, rule.Properties.Reason = c.Outcome, c.Reason
		return rule
	}
	for _, c := range r.Checks() {
		run.describe(describe(c.Item, c))
	}
	for _, o := range r.Outcomes {
		run.describe(describe(o.Item, plan.Check{}))
	}
	problems := r.Problems()
	for _, p := range problems {
		run.describe(describe(p.Item, plan.Check{}))
	}
	if r.Error != "" && len(problems) == 0 {
		run.Invocations[0].Notifications = []sarifNotification{{"error", sarifText{r.Error}}}
	}
	run.found = func(yield func(sarifResult) bool) {
		add := func(rule, level, text, target string) bool {
			result := sarifResult{Level: level, Message: sarifText{text}}
			if len(target) > 1 && target[0] == '/' {
				result.Locations = []sarifLocation{locate(target, 0)}
			}
			return yield(run.result(rule, result))
		}
		for _, c := range r.Checks() {
			for _, n := range c.Notes {
				if !add(c.Item, "note", n.Target+": "+n.Reason, n.Target) {
					return
				}
			}
		}
		for _, p := range problems {
			for left := range leftBy(p) {
				if !add(p.Item, levelOf(r), left.text, left.target) {
					return
				}
			}
			if p.Error != "" && !add(p.Item, "warning", broken(r)+": "+p.Error, "") {
				return
			}
		}
	}
	return run
}

// levelOf is the level of a report's findings: those of a dry run are notes, and
// those of an audit that only warns are warnings.
func levelOf(r plan.Report) string {
	switch r.Result {
	case plan.DryRun:
		return "note"
	case plan.OK:
		return "warning"
	default:
		return isError
	}
}

func itemSARIF(id, command string, known []scrub.Rule) sarifRule {
	i := slices.IndexFunc(known, func(k scrub.Rule) bool { return k.ID == id })
	if i < 0 {
		return describedSARIF(id, "The step "+id+" of a "+command+".", "See the page of the provisioner.", version.Page("reference/components/provisioner-eksnode.md"))
	}
	k := known[i]
	page := version.Page("reference/rules.md#" + id)
	if slices.Contains(k.Groups, "own") {
		page = version.Page("scrub-and-audit.md")
	}
	full := k.Why + "."
	if len(k.Paths) > 0 {
		full += " Paths: " + strings.Join(k.Paths, ", ") + "."
	}
	if k.Owner != "" {
		full += " Written by: " + k.Owner + "."
	}
	if k.Regenerated != "" {
		full += " Regenerated by: " + k.Regenerated + "."
	}
	rule := describedSARIF(id, k.Why+".", "Run eksnode scrub, or resolve the finding by hand. To accept the finding, leave the rule out with --skip-rules "+id+".", page)
	rule.Full.Text = full
	rule.Properties.Tags = slices.Compact(slices.Sorted(slices.Values(k.Groups)))
	return rule
}

func describedSARIF(id, short, help, page string) sarifRule {
	return sarifRule{
		ID: id, Short: sarifText{short}, Full: sarifText{short}, HelpURI: page,
		Help: sarifHelp{help, help + "\n\n[About `" + id + "`](" + page + ")"},
	}
}

// left is one action or finding of a report, with its text.
type left struct{ target, text string }

// leftBy yields the actions and findings of an item.
func leftBy(p plan.Planned) iter.Seq[left] {
	return func(yield func(left) bool) {
		for _, a := range p.Actions {
			if !yield(left{a.Target, fmt.Sprintf("%s %s: %s", a.Verb, a.Target, a.Reason)}) {
				return
			}
		}
		for _, f := range p.Findings {
			if !yield(left{f.Target, fmt.Sprintf("finding %s: %s", f.Target, f.Reason)}) {
				return
			}
		}
	}
}

// broken says what the error of an item means.
func broken(r plan.Report) string {
	if r.Result == plan.Unknown {
		return "could not check"
	}
	return "failed"
}
