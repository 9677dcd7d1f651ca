package userdata

import "go.yaml.in/yaml/v3"

// duplicates reports names that an object has twice: of those, readers take the
// last and say nothing.
func (c *checker) duplicates(n *yaml.Node, path string) {
	if n.Kind != yaml.MappingNode {
		for _, inner := range n.Content {
			c.duplicates(inner, path)
		}
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		name := path + key.Value
		if first, twice := seen[key.Value]; twice {
			c.fail(key.Line, name, "it stands here a second time, after line %d; only this one is read", c.line(first))
		}
		seen[key.Value] = key.Line
		c.duplicates(n.Content[i+1], name+".")
	}
}
