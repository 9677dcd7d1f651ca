package distros

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// holdsInConf holds packages with a list in the configuration of the package manager, which
// then neither installs nor upgrades them. It is a field in a section of a file.
type holdsInConf struct{ file, section, field string }

// Held returns the names that the field lists. A missing file lists none.
func (c holdsInConf) Held(h *host.Host, names []string) ([]string, error) {
	text, err := h.Content(c.file)
	if err != nil {
		return nil, fmt.Errorf("reading the held packages: %w", err)
	}
	var found []string
	at := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			at = strings.Trim(line, "[]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || at != c.section || strings.TrimSpace(key) != c.field {
			continue
		}
		for _, name := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if slices.Contains(names, name) && !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
	}
	return found, nil
}

// Hold adds names to the list, in the section's line of the field or in a new line at the
// beginning of the section. A missing section is added.
func (c holdsInConf) Hold(_ context.Context, h *host.Host, names []string) error {
	return while(holding, c.extend(h, names))
}

func (c holdsInConf) extend(h *host.Host, names []string) error {
	have, err := c.Held(h, names)
	if err != nil {
		return err
	}
	more := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(have, n) })
	if len(more) == 0 {
		return nil
	}
	return plan.Edit{Path: c.file, Change: func(text string) string {
		return withNames(text, c.section, c.field, strings.Join(more, " "))
	}}.Write(h)
}

// withNames returns the text of a configuration file with names in a field.
func withNames(text, section, field, names string) string {
	var lines []string
	if text != "" {
		lines = strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	}
	begin, at := -1, ""
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") {
			at = strings.Trim(trimmed, "[]")
			if at == section {
				begin = i
			}
			continue
		}
		key, value, ok := strings.Cut(trimmed, "=")
		if ok && at == section && strings.TrimSpace(key) == field {
			lines[i] = field + "=" + strings.TrimSpace(strings.TrimSpace(value)+" "+names)
			return strings.Join(lines, "\n") + "\n"
		}
	}
	own := field + "=" + names
	if begin < 0 {
		return strings.Join(append(lines, "["+section+"]", own), "\n") + "\n"
	}
	return strings.Join(slices.Insert(lines, begin+1, own), "\n") + "\n"
}
