package plan

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// Cases are the results of a command, in the form that other programs read.
type Cases struct {
	// Command is the command's name, such as "userdata check".
	Command string
	Result  Result
	// Error says why the run failed, if no case does.
	Error string
	List  []Case
}

// Case is the result of one check: a rule, a step, or a check of another command.
type Case struct {
	// ID names the check for programs, and Name names the case for people; empty is ID.
	ID, Name string
	// Command is the command of a case of another one, such as the audit that ends a scrub.
	Command string
	About
	// Level is the level of what was found; empty is a check that passed.
	Level Level
	// Text is what was seen, and Remedy what to do about it.
	Text, Remedy string
	// Seen are the lines that show it, and Commands those of the remedy.
	Seen, Commands []string
	// Found yields what was found, if that is not one Text. There can be as many as files.
	Found iter.Seq[Place]
	// Place is where Text was seen.
	Place
	// Notes change no result.
	Notes []Finding
	// Error says why the check could not run, and Skipped why it did not.
	Error, Skipped string
	// Outcome is that of an audit's rule, with its reason.
	Outcome Verdict
	Reason  string
	// Milliseconds is the time that a step took.
	Milliseconds int64
}

// About describes a check. Page is its page, relative to the folder docs.
type About struct {
	Short, Full, Help, Page string
	Tags                    []string
}

// Place is a place in a file, with what was found there.
type Place struct {
	Found string
	// File may be empty. Line counts from 1; 0 is the file as a whole.
	File string
	Line int
}

// Level is a level of SARIF.
type Level string

// The levels.
const (
	Fails Level = "error"
	Warns Level = "warning"
	Notes Level = "note"
)

// ResultOf is what cases say together. A failure hides that another check could not run.
func ResultOf(list []Case) Result {
	switch {
	case slices.ContainsFunc(list, func(c Case) bool { return c.Level == Fails }):
		return Findings
	case slices.ContainsFunc(list, func(c Case) bool { return c.Error != "" }):
		return Unknown
	}
	return Clean
}

// Cases has a case for each step of a provision and each rule of a scrub or an audit.
// about describes the items.
func (r Report) Cases(about func(item string) About) Cases {
	level := Fails
	switch r.Result {
	case DryRun:
		level = Notes
	case OK: // an audit that only warns
		level = Warns
	}
	all := Cases{Command: r.Command, Result: r.Result}
	add := func(p Planned, c Case) {
		c.ID, c.About, c.Error = p.Item, about(p.Item), cmp.Or(p.Error, c.Error)
		if len(p.Actions)+len(p.Findings) > 0 {
			c.Level, c.Found = level, p.found
		}
		all.List = append(all.List, c)
	}
	for _, o := range r.Outcomes {
		c := Case{Milliseconds: o.Milliseconds}
		if o.Status == Skipped {
			c.Skipped = "an earlier phase failed"
		}
		add(Planned{Item: o.Item, Findings: o.Findings, Error: o.Error}, c)
	}
	if len(r.Rules) == 0 {
		for _, p := range r.Plan {
			add(p, Case{})
		}
	}
	audited := func(rules []Check, found []Planned) {
		for _, rule := range rules {
			c := Case{Command: "audit", Notes: rule.Notes, Outcome: rule.Outcome, Reason: rule.Reason}
			p := Planned{Item: rule.Item}
			switch i := slices.IndexFunc(found, func(p Planned) bool { return p.Item == rule.Item }); {
			case rule.Outcome == LeftOut, rule.Outcome == NotApplicable:
				c.Skipped = rule.Reason
			case i >= 0:
				p = found[i]
			case rule.Outcome == Unchecked:
				c.Error = rule.Reason
			}
			add(p, c)
		}
	}
	audited(r.Rules, r.Plan)
	if r.Audit != nil {
		audited(r.Audit.Rules, r.Audit.Plan)
	}
	if r.Result != Findings && !slices.ContainsFunc(all.List, func(c Case) bool { return c.Error != "" }) {
		all.Error = r.Error
	}
	return all
}

// found yields the actions and findings of an item.
func (p Planned) found(yield func(Place) bool) {
	for _, a := range p.Actions {
		if !yield(Place{Found: fmt.Sprintf("%s %s: %s", a.Verb, a.Target, a.Reason), File: file(a.Target)}) {
			return
		}
	}
	for _, f := range p.Findings {
		if !yield(Place{Found: fmt.Sprintf("finding %s: %s", f.Target, f.Reason), File: file(f.Target)}) {
			return
		}
	}
}

// file is a target that is a path, or empty.
func file(target string) string {
	if len(target) > 1 && target[0] == '/' {
		return target
	}
	return ""
}

// broken says what the error of a case means.
func (c Cases) broken() string {
	if c.Result == Failure || c.Result == Unfinished || c.Result == DryRun {
		return "failed"
	}
	return "could not check"
}

// object is a part of SARIF 2.1.0
// (https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html).
type object = map[string]any

// noResults is the empty list of results in the text of a log.
const noResults = `      "results": []`

// SARIF prints a log that describes all checks, and has a result for each thing that was
// found. Results are printed one after the other.
func (c Cases) SARIF(w io.Writer) error {
	broken := slices.ContainsFunc(c.List, func(c Case) bool { return c.Error != "" })
	invocation := object{
		"exitCode": c.Result.ExitCode(), "executionSuccessful": c.Result != Failure && c.Result != Unknown && !broken,
	}
	if c.Error != "" {
		invocation["toolExecutionNotifications"] = []object{{"level": Fails, "message": object{"text": c.Error}}}
	}
	rules, at := []object{}, map[string]int{}
	for _, one := range c.List {
		if _, known := at[one.ID]; !known {
			at[one.ID], rules = len(rules), append(rules, one.rule())
		}
		if one.Outcome != "" {
			maps.Copy(rules[at[one.ID]]["properties"].(object), object{"outcome": one.Outcome, "reason": one.Reason})
		}
	}
	text, err := EncodeJSON(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": []object{{
			"tool": object{"driver": object{
				"name": "eksnode", "informationUri": version.Repository,
				"semanticVersion": version.String(), "rules": rules,
			}},
			"invocations": []object{invocation}, "results": []object{},
		}},
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
	for n, one := range c.List {
		for result := range one.results(c.broken(), c.List[:n]) {
			maps.Copy(result, object{"ruleId": one.ID, "ruleIndex": at[one.ID]})
			text, err := EncodeJSON(result)
			if err != nil {
				return err
			}
			_, _ = out.WriteString(separator)
			_, _ = out.Write(bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte(indent)))
			separator, end = ","+indent, "\n      ]"
		}
	}
	_, _ = out.WriteString(end)
	_, _ = out.Write(tail)
	return out.Flush()
}

func (c Case) help() string { return strings.Join(append([]string{c.Remedy}, c.Commands...), "\n") }

// rule describes the check. The properties are not defined by SARIF: they have the outcomes
// of an audit's rules, because code-scanning services show every result as an alert.
func (c Case) rule() object {
	page, properties := version.Page(c.Page), object{}
	help, short := cmp.Or(c.Help, c.help(), "See the page about the check."), cmp.Or(c.Short, c.Name, c.ID)
	if len(c.Tags) > 0 {
		properties["tags"] = c.Tags
	}
	return object{
		"id": c.ID, "shortDescription": object{"text": short}, "fullDescription": object{"text": cmp.Or(c.Full, short)},
		"help":    object{"text": help, "markdown": help + "\n\n[About `" + c.ID + "`](" + page + ")"},
		"helpUri": page, "properties": properties,
	}
}

// results yields what the case found, without what an earlier case of the same check found.
func (c Case) results(broken string, earlier []Case) iter.Seq[object] {
	return func(yield func(object) bool) {
		add := func(level Level, p Place) bool {
			result := object{"level": level, "message": object{"text": p.Found}}
			if p.File != "" {
				result["locations"] = []object{{"physicalLocation": p.physical()}}
			}
			return yield(result)
		}
		for _, n := range c.Notes {
			if !add(Notes, Place{Found: n.Target + ": " + n.Reason, File: file(n.Target)}) {
				return
			}
		}
		before := map[Place]bool{}
		same := func(o Case) bool { return o.ID == c.ID && o.Found != nil && c.Command != "" }
		if i := slices.IndexFunc(earlier, same); i >= 0 {
			for p := range earlier[i].Found {
				before[p] = true
			}
		}
		remedy := strings.TrimSuffix("; "+c.Remedy, "; ")
		switch {
		case c.Found != nil:
			for p := range c.Found {
				if !before[p] && !add(c.Level, p) {
					return
				}
			}
		case c.Level != "":
			c.Place.Found = strings.Join(append([]string{c.Text + remedy}, c.Seen...), "\n")
			add(c.Level, c.Place)
		}
		if c.Error != "" {
			c.Place.Found = strings.Join(append([]string{broken + ": " + c.Error + remedy}, c.Seen...), "\n")
			add(Warns, c.Place)
		}
	}
}

// physical is the place with a file: URI of an absolute path.
func (p Place) physical() object {
	u := &url.URL{Path: p.File}
	if strings.HasPrefix(p.File, "/") {
		u.Scheme = "file"
	}
	place := object{"artifactLocation": object{"uri": u.String()}}
	if p.Line > 0 {
		place["region"] = object{"startLine": p.Line}
	}
	return place
}

// The parts of JUnit's XML that CI servers agree on.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr,omitempty"` // seconds
		Skipped *junitProblem `xml:"skipped,omitempty"`
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// JUnit prints a suite with all cases. A run that did not start has one case with its
// error. JUnit has no warnings: a case that warns passes, and system-out has the text.
func (c Cases) JUnit(w io.Writer) error {
	suite := &junitSuite{Name: "eksnode " + c.Command}
	list := c.List
	if c.Error != "" {
		list = append(slices.Clone(list), Case{ID: c.Command, Error: c.Error})
	}
	for _, one := range list {
		class := strings.ReplaceAll("eksnode."+cmp.Or(one.Command, c.Command), " ", ".")
		made := junitCase{Class: class, Name: cmp.Or(one.Name, one.ID)}
		made.fill(one, c.broken())
		switch {
		case made.Error != nil:
			suite.Errors++
		case made.Failure != nil:
			suite.Failures++
		case made.Skipped != nil:
			suite.Skipped++
		}
		suite.Cases = append(suite.Cases, made)
	}
	suite.Tests = len(suite.Cases)
	text, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(show.XML(text))+"\n")
	return err
}

func (j *junitCase) fill(c Case, broken string) {
	if c.Milliseconds > 0 {
		j.Time = fmt.Sprintf("%.3f", float64(c.Milliseconds)/1000)
	}
	var texts []string
	for _, n := range c.Notes {
		texts = append(texts, fmt.Sprintf("note %s: %s", n.Target, n.Reason))
	}
	notes := len(texts)
	if c.Found != nil {
		for p := range c.Found {
			texts = append(texts, p.Found)
		}
	}
	switch {
	case c.Skipped != "":
		j.Skipped = &junitProblem{Message: c.Skipped}
	case c.Error != "" && (c.Level == "" || c.Level == Fails):
		j.Error = &junitProblem{broken + ": " + c.Error, c.Remedy}
	case c.Error != "":
		texts = append(texts, broken+": "+c.Error)
	case c.Level == Fails && c.Found != nil:
		j.Failure = &junitProblem{show.Count(len(texts)-notes, "finding"), strings.Join(texts[notes:], "\n")}
		texts = texts[:notes]
	case c.Level == Fails:
		why := append(slices.Clone(c.Seen), c.help(), version.Page(c.Page))
		j.Failure = &junitProblem{c.Text, strings.Join(why, "\n")}
	case c.Level != "" && c.Found == nil:
		texts = append(texts, "WARN: "+c.Text, c.Remedy)
	case c.Text != "":
		texts = append(texts, c.Text)
	}
	j.Out = strings.Join(texts, "\n")
}
