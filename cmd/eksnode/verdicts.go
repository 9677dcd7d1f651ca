package main

import (
	"io"
	"strings"
)

// verdict is the answer of one check, in the forms that other programs read.
type verdict struct {
	rule, name string // of the check: for programs and for people
	// level is empty for a check that passed; otherwise one of those of SARIF,
	// or unknown for a check that could not look.
	level string
	// text is what was seen, and remedy what to do about it.
	text, remedy string
	file         string // where it was seen; empty where there is no such place
	line         int    // from 1; 0 for the file as a whole
}

// The levels.
const (
	isError   = "error"
	isWarning = "warning"
	isUnknown = "unknown"
)

// verdictPrinters are the forms of a command's verdicts; a printer for text is
// the command's own.
func verdictPrinters(command string, list []verdict, code int) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"sarif": func(w io.Writer) error { return sarifOf(list, code).print(w) },
		"junit": func(w io.Writer) error { return junitOf(command, list).print(w) },
	}
}

// sarifOf has a result for each check that did not pass.
func sarifOf(list []verdict, code int) *sarifRun {
	run := newSARIF()
	run.Invocations = []sarifInvocation{{Successful: true, ExitCode: code}}
	known := map[string]bool{}
	for _, v := range list {
		if v.level == "" {
			continue
		}
		if !known[v.rule] {
			known[v.rule] = true
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{ID: v.rule})
		}
		text, level := v.text, v.level
		if v.remedy != "" {
			text += "; " + v.remedy
		}
		if level == isUnknown {
			text, level = "could not tell: "+text, isWarning
			run.Invocations[0].Successful = false
		}
		result := sarifResult{RuleID: v.rule, Level: level, Message: sarifText{text}}
		if v.file != "" {
			result.Locations = []sarifLocation{locate(v.file, v.line)}
		}
		run.Results = append(run.Results, result)
	}
	return run
}

// junitOf has a case for each check. Warnings pass, as JUnit has no word for
// them; their text is in system-out.
func junitOf(command string, list []verdict) *junitSuite {
	suite := &junitSuite{Name: "eksnode " + command, Tests: len(list)}
	for _, v := range list {
		c := junitCase{Class: "eksnode." + strings.ReplaceAll(command, " ", "."), Name: v.name}
		switch v.level {
		case isError:
			c.Failure = &junitProblem{Message: v.text, Text: v.remedy}
			suite.Failures++
		case isUnknown:
			c.Error = &junitProblem{Message: v.text, Text: v.remedy}
			suite.Errors++
		case isWarning:
			c.Out = strings.Join([]string{"WARN: " + v.text, v.remedy}, "\n")
		default:
			c.Out = v.text
		}
		suite.Cases = append(suite.Cases, c)
	}
	return suite
}
