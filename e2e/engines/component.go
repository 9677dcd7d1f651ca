package engines

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

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

// fillAll replaces the references in all texts of a node.
func fillAll(n *yaml.Node, values map[string]string) (err error) {
	if n.Kind == yaml.ScalarNode {
		n.Value, err = fill(n.Value, values)
	}
	for _, child := range n.Content {
		err = errors.Join(err, fillAll(child, values))
	}
	return err
}
