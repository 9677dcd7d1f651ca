package nodeconfig

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// place is the source and the line of a value.
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

// placed records the line of a value, by path.
func (c *NodeConfig) placed(path string, line int) {
	if c.places == nil {
		c.places = map[string]place{}
	}
	c.places[path] = place{line: line}
}

// from sets the source of all values.
func (c *NodeConfig) from(source string) {
	for path, p := range c.places {
		p.source = source
		c.places[path] = p
	}
}

// mergePlaces merges the places of a later document into c. Flags are appended, so the
// later document's flags get higher indexes.
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

// Located returns an error of Validate with the source and line before every problem,
// if known. A missing value has the line of its object.
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
