package engines

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Component is a component document of EC2 Image Builder
// (https://docs.aws.amazon.com/imagebuilder/latest/userguide/toe-use-documents.html).
type Component struct {
	Name        string                 `yaml:"name"`
	Description string                 `yaml:"description"`
	Schema      string                 `yaml:"schemaVersion"`
	Parameters  []map[string]Parameter `yaml:"parameters"`
	Constants   []map[string]Constant  `yaml:"constants"`
	Phases      []Phase                `yaml:"phases"`
}

// Parameter is set by the recipe.
type Parameter struct {
	Type        string  `yaml:"type"`
	Default     *string `yaml:"default"`
	Description string  `yaml:"description"`
}

// Constant is a value with a name.
type Constant struct {
	Type  string `yaml:"type"`
	Value string `yaml:"value"`
}

// Phase is a list of steps.
type Phase struct {
	Name  string `yaml:"name"`
	Steps []Step `yaml:"steps"`
}

// Step is one action.
type Step struct {
	Name           string    `yaml:"name"`
	Action         string    `yaml:"action"`
	TimeoutSeconds *int      `yaml:"timeoutSeconds"`
	OnFailure      string    `yaml:"onFailure"`
	MaxAttempts    *int      `yaml:"maxAttempts"`
	Inputs         yaml.Node `yaml:"inputs"`

	// Of Inputs, what the action takes.
	Bash     Bash       `yaml:"-"`
	Download []Download `yaml:"-"`
	Delete   []Delete   `yaml:"-"`
}

// Bash is what ExecuteBash takes: commands that become one script.
type Bash struct {
	Commands []string `yaml:"commands"`
}

// Download is what WebDownload takes. The checksum is looked at only where the
// algorithm is named as well.
type Download struct {
	Source      string `yaml:"source"`
	Destination string `yaml:"destination"`
	Overwrite   *bool  `yaml:"overwrite"`
	Checksum    string `yaml:"checksum"`
	Algorithm   string `yaml:"algorithm"`
}

// Delete is what DeleteFolder takes.
type Delete struct {
	Path  string `yaml:"path"`
	Force bool   `yaml:"force"`
}

// ParseComponent reads a document and fills in its parameters. Every parameter
// needs a value, and every value a parameter.
func ParseComponent(text []byte, values map[string]string) (Component, error) {
	var c Component
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return Component{}, fmt.Errorf("reading the component: %w", err)
	}
	replace, err := c.references(values)
	if err == nil {
		err = c.check(replace)
	}
	if err != nil {
		return Component{}, fmt.Errorf("reading the component: %w", err)
	}
	return c, nil
}

// Phase is one of the document's phases.
func (c Component) Phase(name string) (Phase, error) {
	for _, p := range c.Phases {
		if p.Name == name {
			return p, nil
		}
	}
	return Phase{}, fmt.Errorf("the component has no phase %s", name)
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z0-9_-]{3,128}$`)
	reference    = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)
)

// references gives the function that fills in references to parameters and
// constants.
func (c Component) references(values map[string]string) (func(string) (string, error), error) {
	known, used := map[string]string{}, map[string]bool{}
	var errs []error
	define := func(name, kind, value string) {
		_, twice := known[name]
		switch {
		case !variableName.MatchString(name) || twice:
			errs = append(errs, fmt.Errorf("the name %q is taken, or not 3 to 128 letters, digits, - and _", name))
		case kind != "string":
			errs = append(errs, fmt.Errorf("%s: the type is %q, and can only be string", name, kind))
		}
		known[name] = value
	}
	for _, row := range c.Parameters {
		for name, p := range row {
			value, given := values[name]
			if !given && p.Default == nil {
				errs = append(errs, fmt.Errorf("the parameter %s has no value", name))
			}
			if !given && p.Default != nil {
				value = *p.Default
			}
			define(name, p.Type, value)
		}
	}
	for name := range values {
		if _, there := known[name]; !there {
			errs = append(errs, fmt.Errorf("there is no parameter %s", name))
		}
	}
	for _, row := range c.Constants {
		for name, constant := range row {
			define(name, constant.Type, constant.Value)
		}
	}
	return func(text string) (string, error) {
		var missing []error
		filled := reference.ReplaceAllStringFunc(text, func(found string) string {
			name := reference.FindStringSubmatch(found)[1]
			value, there := known[name]
			if !there {
				missing = append(missing, fmt.Errorf("nothing is called %q", name))
			}
			used[name] = true
			return value
		})
		return filled, errors.Join(missing...)
	}, errors.Join(errs...)
}

// check looks whether the document is one that Image Builder takes, and decodes
// the inputs of its steps.
func (c *Component) check(replace func(string) (string, error)) error {
	if c.Schema != "1.0" {
		return fmt.Errorf("schemaVersion: it is %q, and not 1.0", c.Schema)
	}
	var phases []string
	for i := range c.Phases {
		p := &c.Phases[i]
		if !slices.Contains([]string{"build", "validate", "test"}, p.Name) || slices.Contains(phases, p.Name) {
			return fmt.Errorf("the phase %q is there twice, or nobody runs it", p.Name)
		}
		phases = append(phases, p.Name)
		var steps []string
		for j := range p.Steps {
			s := &p.Steps[j]
			if slices.Contains(steps, s.Name) || s.Name == "" {
				return fmt.Errorf("phase %s: the step %q is there twice, or has no name", p.Name, s.Name)
			}
			steps = append(steps, s.Name)
			if err := s.check(replace); err != nil {
				return fmt.Errorf("phase %s, step %s: %w", p.Name, s.Name, err)
			}
		}
		if len(steps) == 0 {
			return fmt.Errorf("the phase %s has no steps", p.Name)
		}
	}
	if len(phases) == 0 {
		return errors.New("it has no phases")
	}
	return nil
}

func (s *Step) check(replace func(string) (string, error)) error {
	switch {
	case s.TimeoutSeconds != nil && *s.TimeoutSeconds < 1 && *s.TimeoutSeconds != -1:
		return errors.New("timeoutSeconds must be -1 or at least 1")
	case s.MaxAttempts != nil && *s.MaxAttempts < 1:
		return errors.New("maxAttempts must be at least 1")
	case !slices.Contains([]string{"", "Abort", "Continue", "Ignore"}, s.OnFailure):
		return fmt.Errorf("onFailure %q is none of Abort, Continue and Ignore", s.OnFailure)
	}
	if err := fill(&s.Inputs, replace); err != nil {
		return err
	}
	into := map[string]any{"ExecuteBash": &s.Bash, "WebDownload": &s.Download, "DeleteFolder": &s.Delete}[s.Action]
	if into == nil {
		return fmt.Errorf("nothing runs the action %q here", s.Action)
	}
	return strictly(s.Inputs, into)
}

// fill replaces the references in all of a node's texts.
func fill(n *yaml.Node, replace func(string) (string, error)) error {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "{{") {
		value, err := replace(n.Value)
		if err != nil {
			return err
		}
		n.Value = value
	}
	for _, child := range n.Content {
		if err := fill(child, replace); err != nil {
			return err
		}
	}
	return nil
}

// strictly decodes a node; fields that are not known are refused.
func strictly(n yaml.Node, into any) error {
	text, err := yaml.Marshal(&n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	return d.Decode(into)
}
