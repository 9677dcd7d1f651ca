package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// place is where a value is written.
type place struct {
	source string // of Load; empty for none
	line   int
}

func (p place) String() string {
	if p.source == "" {
		return fmt.Sprintf("line %d: ", p.line)
	}
	return fmt.Sprintf("%s: line %d: ", p.source, p.line)
}

// placed notes where a document's values are, by path.
func (c *NodeConfig) placed(path string, line int) {
	if c.places == nil {
		c.places = map[string]place{}
	}
	c.places[path] = place{line: line}
}

// from names the source of all values.
func (c *NodeConfig) from(source string) {
	for path, p := range c.places {
		p.source = source
		c.places[path] = p
	}
}

// mergePlaces puts the places of a later document over this one's. Flags append,
// so that the later document's have higher numbers.
func (c *NodeConfig) mergePlaces(later *NodeConfig) {
	out := maps.Clone(c.places)
	if out == nil {
		out = map[string]place{}
	}
	const flags = "spec.kubelet.flags["
	for path, p := range later.places {
		var n int
		if _, err := fmt.Sscanf(path, flags+"%d]", &n); err == nil {
			path = fmt.Sprintf("%s%d]", flags, n+len(c.Spec.Kubelet.Flags))
		}
		out[path] = p
	}
	c.places = out
}

// Located puts source and line before every problem of an error of Validate, as
// far as they are known. The place of a missing value is its object's.
func (c *NodeConfig) Located(err error) error {
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) {
		return err
	}
	var located []error
	for _, e := range all.Unwrap() {
		path, _, _ := strings.Cut(e.Error(), ": ")
		p, known := c.places[path]
		for !known && path != "" {
			path = path[:max(strings.LastIndexAny(path, ".["), 0)]
			p, known = c.places[path]
		}
		if !known {
			p, known = c.places["kind"] // a document without spec
		}
		if known {
			e = fmt.Errorf("%s%w", p, e)
		}
		located = append(located, e)
	}
	return errors.Join(located...)
}
