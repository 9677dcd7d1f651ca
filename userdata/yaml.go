package userdata

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// maxYAML bounds a YAML text, in bytes: its parser takes some hundred times as
// much memory.
const maxYAML = 256 << 10

// isReadable says whether a YAML text is within the bound.
func (c *checker) isReadable(text string) bool {
	if len(text) > maxYAML {
		c.fail(1, "", "the YAML has more than %d KiB", maxYAML>>10)
	}
	return len(text) <= maxYAML
}

// duplicates reports names that an object has twice: of those, readers take the
// last and say nothing.
func (c *checker) duplicates(n *yaml.Node, path ...string) {
	if n.Kind != yaml.MappingNode {
		for _, inner := range n.Content {
			c.duplicates(inner, path...)
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if first, twice := seen[key.Value]; twice {
			c.fail(key.Line, strings.Join(append(path, key.Value), "."), "it stands here a second time, after line %d; only this one is read", c.line(first))
		}
		seen[key.Value] = key.Line
		c.duplicates(n.Content[i+1], append(path, nodeconfig.Printable(key.Value))...)
	}
}
