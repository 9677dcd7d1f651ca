package engines

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
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

// Both kinds of documents have the same names of parameters, constants and
// steps, and the same references to them.
var (
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9_-]{3,128}$`)
	reference = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)
)

// decode reads a document. Unknown fields are errors.
func decode(text string, into any) error {
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	return d.Decode(into)
}

// fill replaces the references in a text. A name without a value is an error.
func fill(text string, values map[string]string) (string, error) {
	var missing []error
	filled := reference.ReplaceAllStringFunc(text, func(found string) string {
		name := reference.FindStringSubmatch(found)[1]
		value, there := values[name]
		if !there {
			missing = append(missing, fmt.Errorf("no parameter, constant or step named %q", name))
		}
		return value
	})
	return filled, errors.Join(missing...)
}

// rules collects an engine's rules that a document breaks.
type rules []error

func (r *rules) demand(holds bool, format string, args ...any) {
	if !holds {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}

// given returns the values of a document's parameters: the sent value, or the
// default.
func given(sent map[string]string, defaults map[string]*string) (map[string]string, error) {
	values := map[string]string{}
	var broken rules
	for name, value := range defaults {
		text, there := sent[name]
		broken.demand(there || value != nil, "the parameter %s has no value", name)
		if !there && value != nil {
			text = *value
		}
		values[name] = text
	}
	for name := range sent {
		_, known := defaults[name]
		broken.demand(known, "the document has no parameter %s", name)
	}
	return values, errors.Join(broken...)
}

// Component is a component document of EC2 Image Builder
// (https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-use-documents.html).
type Component struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description"`
	Schema      string `yaml:"schemaVersion"`
	Parameters  []map[string]struct {
		Type        string  `yaml:"type"`
		Default     *string `yaml:"default"`
		Description string  `yaml:"description"`
	} `yaml:"parameters"`
	Constants []map[string]struct {
		Type  string `yaml:"type"`
		Value string `yaml:"value"`
	} `yaml:"constants"`
	Phases []struct {
		Name  string `yaml:"name"`
		Steps []Step `yaml:"steps"`
	} `yaml:"phases"`
}

// Step is one action.
type Step struct {
	Name           string    `yaml:"name"`
	Action         string    `yaml:"action"`
	TimeoutSeconds *int      `yaml:"timeoutSeconds"`
	OnFailure      string    `yaml:"onFailure"`
	MaxAttempts    *int      `yaml:"maxAttempts"`
	Inputs         yaml.Node `yaml:"inputs"`

	// Inputs in the form of the action.
	Bash struct { // ExecuteBash: the commands become one script
		Commands []string `yaml:"commands"`
	} `yaml:"-"`
	Download []Download `yaml:"-"`
	Delete   []struct { // DeleteFolder
		Path  string `yaml:"path"`
		Force bool   `yaml:"force"`
	} `yaml:"-"`
}

// Download is the input of WebDownload. Image Builder verifies the checksum
// only if the algorithm is also set.
type Download struct {
	Source      string `yaml:"source"`
	Destination string `yaml:"destination"`
	Overwrite   *bool  `yaml:"overwrite"`
	Checksum    string `yaml:"checksum"`
	Algorithm   string `yaml:"algorithm"`
}

// ParseComponent reads a document with the rules of Image Builder, and fills in
// its parameters. Every parameter needs a value, and every value a parameter.
func ParseComponent(text []byte, sent map[string]string) (Component, error) {
	var c Component
	err := decode(string(text), &c)
	if err == nil {
		err = c.check(sent)
	}
	if err != nil {
		return Component{}, fmt.Errorf("reading the component: %w", err)
	}
	return c, nil
}

// check applies Image Builder's rules to the document, and decodes the inputs
// of its steps.
func (c *Component) check(sent map[string]string) error {
	var broken rules
	defaults := map[string]*string{}
	define := func(name, kind string, value *string) {
		_, twice := defaults[name]
		broken.demand(nameForm.MatchString(name) && !twice, "the name %q is used twice, or not 3 to 128 letters, digits, - and _", name)
		broken.demand(kind == "string", "%s: the type is %q, must be string", name, kind)
		defaults[name] = value
	}
	for _, row := range c.Parameters {
		for name, p := range row {
			define(name, p.Type, p.Default)
		}
	}
	for _, row := range c.Constants {
		for name, constant := range row {
			define(name, constant.Type, &constant.Value)
		}
	}
	values, err := given(sent, defaults)
	broken.demand(c.Schema == "1.0", "schemaVersion is %q, must be 1.0", c.Schema)
	broken.demand(len(c.Phases) > 0, "the document has no phases")
	names := map[string]bool{}
	for i, p := range c.Phases {
		broken.demand(slices.Contains([]string{"build", "validate", "test"}, p.Name) && !names[p.Name] && len(p.Steps) > 0,
			"the phase %q is used twice, has no steps, or is unknown to Image Builder", p.Name)
		names[p.Name] = true
		for j := range p.Steps {
			s := &c.Phases[i].Steps[j]
			where := p.Name + "." + s.Name
			broken.demand(s.Name != "" && !names[where], "the step %s is used twice, or has no name", where)
			names[where] = true
			err = errors.Join(err, s.check(where, values))
		}
	}
	return errors.Join(err, errors.Join(broken...))
}

func (s *Step) check(where string, values map[string]string) error {
	var broken rules
	broken.demand(s.TimeoutSeconds == nil || *s.TimeoutSeconds == -1 || *s.TimeoutSeconds > 0, "step %s: timeoutSeconds must be -1 or at least 1", where)
	broken.demand(s.MaxAttempts == nil || *s.MaxAttempts > 0, "step %s: maxAttempts must be at least 1", where)
	broken.demand(slices.Contains([]string{"", "Abort", "Continue", "Ignore"}, s.OnFailure), "step %s: onFailure is %q", where, s.OnFailure)
	into := map[string]any{"ExecuteBash": &s.Bash, "WebDownload": &s.Download, "DeleteFolder": &s.Delete}[s.Action]
	if into == nil {
		return fmt.Errorf("step %s: the test code does not support the action %q", where, s.Action)
	}
	broken.demand(fillAll(&s.Inputs, values) == nil, "step %s: unknown reference", where)
	text, err := yaml.Marshal(&s.Inputs)
	if err == nil {
		err = decode(string(text), into)
	}
	return errors.Join(err, errors.Join(broken...))
}

func fillAll(n *yaml.Node, values map[string]string) (err error) {
	if n.Kind == yaml.ScalarNode {
		n.Value, err = fill(n.Value, values)
	}
	for _, child := range n.Content {
		err = errors.Join(err, fillAll(child, values))
	}
	return err
}
