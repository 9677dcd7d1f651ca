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

// Command is a document of Systems Manager's Run Command, of the schema 2.2
// (https://docs.aws.amazon.com/systems-manager/latest/userguide/documents-schemas-features.html).
type Command struct {
	Schema      string                      `yaml:"schemaVersion"`
	Description string                      `yaml:"description"`
	Parameters  map[string]CommandParameter `yaml:"parameters"`
	Steps       []CommandStep               `yaml:"mainSteps"`
}

// CommandParameter is set by whoever sends the command.
type CommandParameter struct {
	Type        string   `yaml:"type"`
	Description string   `yaml:"description"`
	Default     *string  `yaml:"default"`
	Allowed     []string `yaml:"allowedValues"`
	Pattern     string   `yaml:"allowedPattern"`
}

// CommandStep is one action: here, always a shell script.
type CommandStep struct {
	Action       string              `yaml:"action"`
	Name         string              `yaml:"name"`
	Precondition map[string][]string `yaml:"precondition"`
	Inputs       struct {
		Commands         []string `yaml:"runCommand"`
		TimeoutSeconds   string   `yaml:"timeoutSeconds"`
		WorkingDirectory string   `yaml:"workingDirectory"`
	} `yaml:"inputs"`
}

// ParseCommand reads a document.
func ParseCommand(text []byte) (Command, error) {
	var c Command
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	d.KnownFields(true)
	err := d.Decode(&c)
	if err == nil {
		err = c.check()
	}
	if err != nil {
		return Command{}, fmt.Errorf("reading the document: %w", err)
	}
	return c, nil
}

func (c Command) check() error {
	if c.Schema != "2.2" {
		return fmt.Errorf("schemaVersion: it is %q, and not 2.2", c.Schema)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Parameters)) {
		p := c.Parameters[name]
		switch {
		case p.Type != "String":
			return fmt.Errorf("parameter %s: nothing reads the type %q here", name, p.Type)
		case p.Pattern == "" && len(p.Allowed) == 0:
			// It becomes a part of a script that root runs.
			return fmt.Errorf("parameter %s: it has neither allowedPattern nor allowedValues", name)
		case p.Default != nil && p.refuses(*p.Default):
			return fmt.Errorf("parameter %s: its default %q is not allowed", name, *p.Default)
		}
	}
	if len(c.Steps) == 0 {
		return errors.New("it has no mainSteps")
	}
	for _, s := range c.Steps {
		switch {
		case s.Action != "aws:runShellScript":
			return fmt.Errorf("step %s: nothing runs the action %q here", s.Name, s.Action)
		case !regexp.MustCompile(`^[A-Za-z0-9_-]{3,128}$`).MatchString(s.Name):
			return fmt.Errorf("the step's name %q is not 3 to 128 letters, digits, - and _", s.Name)
		case len(s.Inputs.Commands) == 0:
			return fmt.Errorf("step %s: it has no runCommand", s.Name)
		case s.Precondition != nil && !slices.Equal(s.Precondition["StringEquals"], []string{"platformType", "Linux"}):
			return fmt.Errorf("step %s: the precondition never holds", s.Name)
		}
	}
	return nil
}

func (p CommandParameter) refuses(value string) bool {
	if len(p.Allowed) > 0 {
		return !slices.Contains(p.Allowed, value)
	}
	return !regexp.MustCompile(p.Pattern).MatchString(value)
}

// Script is what a machine runs for a step, with the parameters filled in.
func (c Command) Script(step int, values map[string]string) (string, error) {
	var errs []error
	for name := range values {
		if _, known := c.Parameters[name]; !known {
			errs = append(errs, fmt.Errorf("there is no parameter %s", name))
		}
	}
	script := reference.ReplaceAllStringFunc(strings.Join(c.Steps[step].Inputs.Commands, "\n"), func(found string) string {
		name := reference.FindStringSubmatch(found)[1]
		p, known := c.Parameters[name]
		value, given := values[name]
		if !given && p.Default != nil {
			value, given = *p.Default, true
		}
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("nothing is called %q", name))
		case !given:
			errs = append(errs, fmt.Errorf("the parameter %s has no value", name))
		case p.refuses(value):
			errs = append(errs, fmt.Errorf("the parameter %s: %q is not allowed", name, value))
		}
		return value
	})
	return script, errors.Join(errs...)
}
