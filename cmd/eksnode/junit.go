package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

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
		Skipped *junitSkipped `xml:"skipped,omitempty"`
		Failure *junitProblem `xml:"failure,omitempty"`
		Error   *junitProblem `xml:"error,omitempty"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func (s *junitSuite) add(c junitCase) {
	s.Tests++
	switch {
	case c.Error != nil:
		s.Errors++
	case c.Failure != nil:
		s.Failures++
	case c.Skipped != nil:
		s.Skipped++
	}
	s.Cases = append(s.Cases, c)
}

func (s *junitSuite) print(w io.Writer) error {
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(show.XML(text))+"\n")
	return err
}

// reportJUnit has a case for each step of a provision and each rule of a scrub
// or an audit. A run that did not start has one case with its error.
func reportJUnit(r plan.Report) *junitSuite {
	suite := &junitSuite{Name: "eksnode " + r.Command}
	passes := r.Result.ExitCode() == 0 // a dry run, or an audit that only warns
	for _, o := range r.Outcomes {
		c := junitCase{Class: "eksnode." + r.Command, Name: o.Item, Time: fmt.Sprintf("%.3f", float64(o.Milliseconds)/1000)}
		if o.Status == plan.Skipped {
			c.Skipped = &junitSkipped{"an earlier phase failed"}
		}
		c.problem(plan.Planned{Findings: o.Findings, Error: o.Error}, "failed", false)
		suite.add(c)
	}
	if len(r.Rules) == 0 {
		for _, p := range r.Plan {
			c := junitCase{Class: "eksnode." + r.Command, Name: p.Item}
			c.problem(p, "failed", passes)
			suite.add(c)
		}
	}
	suite.checks(r.Rules, r.Plan, passes)
	if r.Audit != nil {
		suite.checks(r.Audit.Rules, r.Audit.Plan, passes)
	}
	if r.Error != "" && r.Result != plan.Findings && suite.Errors == 0 {
		suite.add(junitCase{Class: "eksnode." + r.Command, Name: r.Command, Error: &junitProblem{broken(r), r.Error}})
	}
	return suite
}

// checks adds a case for each rule of an audit.
func (s *junitSuite) checks(list []plan.Check, found []plan.Planned, passes bool) {
	for _, check := range list {
		c := junitCase{Class: "eksnode." + string(agent.Audit), Name: check.Item}
		for _, n := range check.Notes {
			c.Out += fmt.Sprintf("note %s: %s\n", n.Target, n.Reason)
		}
		i := slices.IndexFunc(found, func(p plan.Planned) bool { return p.Item == check.Item })
		switch {
		case check.Outcome == plan.LeftOut, check.Outcome == plan.NotApplicable:
			c.Skipped = &junitSkipped{check.Reason}
		case i >= 0:
			c.problem(found[i], "could not check", passes)
		case check.Outcome == plan.Unchecked:
			c.problem(plan.Planned{Error: check.Reason}, "could not check", passes)
		}
		s.add(c)
	}
}

// problem fills in what an item found or why it failed; broken is the message of
// its error. In a run that passes, both are output of a passing case.
func (c *junitCase) problem(p plan.Planned, broken string, passes bool) {
	var texts []string
	for left := range leftBy(p) {
		texts = append(texts, left.text)
	}
	switch {
	case passes:
		if p.Error != "" {
			texts = append(texts, broken+": "+p.Error)
		}
		c.Out = strings.Join(texts, "\n")
		return
	case p.Error != "":
		c.Error = &junitProblem{broken, p.Error}
		c.Out = strings.Join(texts, "\n")
	case len(texts) > 0:
		c.Failure = &junitProblem{show.Count(len(texts), "finding"), strings.Join(texts, "\n")}
	}
}
