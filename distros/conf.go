package distros

import (
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// confHas returns the names that a field lists in a section of a configuration
// file. A missing file lists none.
func confHas(h *host.Host, file, section, field string, names []string) ([]string, error) {
	text, err := h.Content(file)
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
		if !ok || at != section || strings.TrimSpace(key) != field {
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

// extendConf adds names to the list of a field, in the section's line of that
// field or in a new line at the beginning of the section. A missing section is
// added.
func extendConf(h *host.Host, file, section, field string, names []string) error {
	have, err := confHas(h, file, section, field, names)
	if err != nil {
		return err
	}
	more := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(have, n) })
	if len(more) == 0 {
		return nil
	}
	text, err := h.Content(file)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	attr := host.Attributes{Mode: 0o644}
	if text != nil {
		if attr, err = h.Files.Attributes(file); err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
	}
	return h.Files.WriteFile(file, []byte(withNames(string(text), section, field, strings.Join(more, " "))), attr)
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
