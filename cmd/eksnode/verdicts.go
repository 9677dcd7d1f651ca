package main

import (
	"io"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/version"
)

// verdict is the result of one check, for the formats that other programs read.
type verdict struct {
	rule, name string // of the check: for programs and for people
	// page is the page about the check, relative to docs.
	page string
	// level is empty for a check that passed; otherwise a level of SARIF, or
	// unknown for a check that could not run.
	level string
	// text is what was seen, and remedy what to do about it.
	text, remedy string
	// seen are the lines that show it, and commands those of the remedy.
	seen, commands []string
	file           string // where it was seen; empty where there is no such place
	line           int    // from 1; 0 for the file as a whole
}

// help is the remedy with its commands, or "".
func (v verdict) help() string {
	return strings.Join(append([]string{v.remedy}, v.commands...), "\n")
}

// The levels.
const (
	isError   = "error"
	isWarning = "warning"
	isUnknown = "unknown"
	// isSkipped is a check that did not run for the reason of another verdict.
	isSkipped = "skipped"
)

// verdictPrinters print a command's verdicts for other programs. The command
// itself prints text and JSON.
func verdictPrinters(command string, list []verdict, code int) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"sarif": func(w io.Writer) error { return sarifOf(list, code).print(w) },
		"junit": func(w io.Writer) error { return junitOf(command, list).print(w) },
	}
}

// sarifOf describes all checks, and has a result for each check that did not
// pass.
func sarifOf(list []verdict, code int) *sarifRun {
	run := newSARIF()
	var found []sarifResult
	run.Invocations = []sarifInvocation{{Successful: true, ExitCode: code}}
	for _, v := range list {
		help := v.help()
		if help == "" {
			help = "See the page about the check."
		}
		rule := describedSARIF(v.rule, v.name, help, version.Page(v.page))
		run.describe(rule)
		if v.level == "" || v.level == isSkipped {
			continue
		}
		text, level := v.text, v.level
		if v.remedy != "" {
			text += "; " + v.remedy
		}
		text = strings.Join(append([]string{text}, v.seen...), "\n")
		if level == isUnknown {
			text, level = "could not check: "+text, isWarning
			run.Invocations[0].Successful = false
		}
		result := sarifResult{Level: level, Message: sarifText{text}}
		if v.file != "" {
			result.Locations = []sarifLocation{locate(v.file, v.line)}
		}
		found = append(found, run.result(rule.ID, result))
	}
	run.found = slices.Values(found)
	return run
}

// junitOf has a case for each check. JUnit has no warnings: a check that warns
// passes, and system-out has the text.
func junitOf(command string, list []verdict) *junitSuite {
	suite := &junitSuite{Name: "eksnode " + command}
	for _, v := range list {
		c := junitCase{Class: "eksnode." + strings.ReplaceAll(command, " ", "."), Name: v.name}
		switch v.level {
		case isError:
			c.Failure = &junitProblem{Message: v.text, Text: strings.Join(append(slices.Clone(v.seen), v.help(), version.Page(v.page)), "\n")}
		case isUnknown:
			c.Error = &junitProblem{Message: v.text, Text: v.remedy}
		case isSkipped:
			c.Skipped = &junitSkipped{v.text}
		case isWarning:
			c.Out = strings.Join([]string{"WARN: " + v.text, v.remedy}, "\n")
		default:
			c.Out = v.text
		}
		suite.add(c)
	}
	return suite
}
