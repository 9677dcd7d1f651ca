package engines

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Command is a document of Systems Manager's Run Command, schema 2.2
// (https://docs.aws.amazon.com/systems-manager/latest/userguide/documents-schemas-features.html).
type Command struct {
	Schema      string                      `yaml:"schemaVersion"`
	Description string                      `yaml:"description"`
	Parameters  map[string]CommandParameter `yaml:"parameters"`
	// Steps must be shell scripts here.
	Steps []struct {
		Action       string              `yaml:"action"`
		Name         string              `yaml:"name"`
		Precondition map[string][]string `yaml:"precondition"`
		Inputs       struct {
			Commands         []string `yaml:"runCommand"`
			TimeoutSeconds   string   `yaml:"timeoutSeconds"`
			WorkingDirectory string   `yaml:"workingDirectory"`
		} `yaml:"inputs"`
	} `yaml:"mainSteps"`
}

// CommandParameter is a parameter that the sender of a command sets.
type CommandParameter struct {
	Type        string   `yaml:"type"`
	Description string   `yaml:"description"`
	Default     *string  `yaml:"default"`
	Allowed     []string `yaml:"allowedValues"`
	Pattern     string   `yaml:"allowedPattern"`
}

// ParseCommand reads a document with the rules of Systems Manager.
func ParseCommand(text []byte) (Command, error) {
	var c Command
	err := decode(string(text), &c)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return Command{}, fmt.Errorf("reading the document: %w", err)
	}
	return c, nil
}

func (c Command) check() error {
	var broken rules
	broken.demand(c.Schema == "2.2", "schemaVersion is %q, must be 2.2", c.Schema)
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		p := c.Parameters[name]
		broken.demand(p.Type == "String", "parameter %s: the test code does not support the type %q", name, p.Type)
		// The value becomes part of a script that root runs.
		broken.demand(p.Pattern != "" || len(p.Allowed) > 0, "parameter %s has neither allowedPattern nor allowedValues", name)
		broken.demand(p.Default == nil || p.allows(*p.Default), "parameter %s: its own rules refuse the default", name)
	}
	broken.demand(len(c.Steps) > 0, "the document has no mainSteps")
	for _, s := range c.Steps {
		broken.demand(s.Action == "aws:runShellScript", "step %s: the test code does not support the action %q", s.Name, s.Action)
		broken.demand(nameForm.MatchString(s.Name), "the step's name %q is not 3 to 128 letters, digits, - and _", s.Name)
		broken.demand(len(s.Inputs.Commands) > 0, "step %s has no runCommand", s.Name)
		broken.demand(s.Precondition == nil || slices.Equal(s.Precondition["StringEquals"], []string{"platformType", "Linux"}), "step %s: the precondition never holds", s.Name)
	}
	return errors.Join(broken...)
}

func (p CommandParameter) allows(value string) bool {
	if len(p.Allowed) > 0 {
		return slices.Contains(p.Allowed, value)
	}
	return regexp.MustCompile(p.Pattern).MatchString(value)
}

// Script returns the script that a machine runs for a step, with the parameters
// filled in.
func (c Command) Script(step int, sent map[string]string) (string, error) {
	defaults := map[string]*string{}
	for name, p := range c.Parameters {
		defaults[name] = p.Default
	}
	values, err := given(sent, defaults)
	for name, value := range values {
		if !c.Parameters[name].allows(value) {
			err = errors.Join(err, fmt.Errorf("the parameter %s: %q is not allowed", name, value))
		}
	}
	script, missing := fill(strings.Join(c.Steps[step].Inputs.Commands, "\n"), values)
	return script, errors.Join(err, missing)
}
