//go:build packer && linux

package main_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// later returns an HCL expression of the value's type that is unknown at validate,
// wholly or in parts.
func later(value any, inParts bool) string {
	const text = "data.null.later.output"
	switch value := value.(type) {
	case bool:
		return text + ` == "yes"`
	case int:
		return "length(" + text + ")"
	case []any:
		if inParts {
			return "[" + text + "]"
		}
		return `split(",", ` + text + ")"
	case fields:
		if !inParts {
			return "jsondecode(" + text + ")"
		}
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, fmt.Sprintf("%q = %s", key, text))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	default:
		if inParts {
			return `"/opt/${build.User}"`
		}
		return text
	}
}

// packer validates every field with known, unknown and partly unknown values.
func TestValidateEveryField(t *testing.T) {
	plugin := buildPlugin(t, "0.1.0", "")
	all := everyField(t)
	eachPacker(t, func(t *testing.T, d *workstation) {
		d.install(plugin)
		blocks := "data \"null\" \"later\" { input = \"x\" }\nsource \"null\" \"x\" { communicator = \"none\" }\nbuild {\n  sources = [\"null.x\"]\n"
		add := func(name string, expression func(any) string) {
			blocks += fmt.Sprintf("  %s %q {\n", components()[name].kind, name)
			for _, field := range slices.Sorted(maps.Keys(all[name])) {
				blocks += fmt.Sprintf("    %s = %s\n", field, expression(all[name][field]))
			}
			blocks += "  }\n"
		}
		// Provisioners come first.
		for _, name := range []string{"eksnode", "eksnode-scrub", "eksnode-ami"} {
			add(name, func(value any) string {
				text, err := json.Marshal(value) // JSON is valid HCL
				require.NoError(t, err)
				return string(text)
			})
			add(name, func(value any) string { return later(value, false) })
			add(name, func(value any) string { return later(value, true) })
		}
		d.template(blocks + "}\n")
		said, err := d.offline("validate", ".")
		require.NoError(t, err, said)
		for _, folder := range []string{"reports", "cache"} {
			assert.NoDirExists(t, filepath.Join(d.folder, folder), "validating must not make folders")
		}
	})
}
