package nodeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits for all NodeConfigs of one text together. Real NodeConfigs have some
// kilobytes.
const (
	maxYAML      = 256 << 10 // bytes of YAML
	maxValues    = 2 << 20   // bytes of values, with aliases and merge keys followed
	maxDocuments = 100
	// maxNesting is the maximum nesting depth of objects and lists.
	maxNesting = 100
	// maxProblems is the maximum number of listed problems of a document.
	maxProblems = 100
)

// budget is the unused part of the limits.
type budget struct{ yaml, values, documents int }

func newBudget() *budget { return &budget{maxYAML, maxValues, maxDocuments} }

// ReadPart reads a part of MediaType, or a text without MIME, as Parse does. text is the
// YAML or JSON in the part, without base64 and gzip. c is nil for an empty part.
func ReadPart(p Part) (c *NodeConfig, text []byte, warnings []string, err error) {
	text, _, err = Unwrap([]byte(p.Text))
	if err != nil || p.Media != "" && strings.TrimSpace(p.Text) == "" {
		return nil, text, nil, err
	}
	c, warnings, err = decode(text, 0, newBudget())
	return c, text, warnings, err
}

// Decode reads the NodeConfig in the first document of a YAML or JSON text that is not
// empty. The error lists all mistakes, each with its line and path. A text without a
// NodeConfig is an error.
func Decode(text []byte) (*NodeConfig, error) {
	c, _, err := decode(text, 0, newBudget())
	return c, err
}

// decode reads a text. before is the number of lines of the user data before the text.
// Like Amazon's nodeadm, decode reads the first document only.
func decode(text []byte, before int, left *budget) (c *NodeConfig, warnings []string, err error) {
	if left.yaml -= len(text); left.yaml < 0 {
		return nil, nil, fmt.Errorf("the NodeConfigs have more than %d KiB", maxYAML>>10)
	}
	dec := yaml.NewDecoder(bytes.NewReader(withoutEscapedSlashes(text)))
	for c == nil {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil, nil, errors.New("the text contains no document: a NodeConfig is YAML with apiVersion " + APIVersion + " and kind " + Kind)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the YAML: %s", moved(strings.TrimPrefix(err.Error(), "yaml: "), before))
		}
		move(&doc, before)
		if left.documents--; left.documents < 0 {
			return nil, nil, fmt.Errorf("there are more than %d YAML documents", maxDocuments)
		}
		if c, err = decodeDocument(&doc, left); err != nil {
			return nil, nil, err
		}
	}
	var next yaml.Node
	switch err := dec.Decode(&next); {
	case errors.Is(err, io.EOF), err == nil && isEmpty(&next):
	case err != nil:
		warnings = append(warnings, "the YAML after the first document is ignored: Amazon's nodeadm reads the first document only; put the rest into a MIME part of its own")
	default:
		warnings = append(warnings, fmt.Sprintf("line %d: a second YAML document is ignored: Amazon's nodeadm reads the first document only; put the second into a MIME part of its own", next.Line+before))
	}
	return c, warnings, nil
}

// withoutEscapedSlashes returns JSON without \/, which the YAML library does not know.
func withoutEscapedSlashes(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\/`)) || !json.Valid(text) {
		return text
	}
	return []byte(strings.NewReplacer(`\\`, `\\`, `\/`, `/`).Replace(string(text)))
}

func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null"
}

func move(n *yaml.Node, lines int) {
	n.Line += lines
	for _, below := range n.Content {
		move(below, lines)
	}
}

// moved adds a number of lines to the line number with which an error of the YAML
// library may begin.
func moved(text string, lines int) string {
	var line int
	if _, err := fmt.Sscanf(text, "line %d:", &line); err != nil {
		return text
	}
	return fmt.Sprintf("line %d%s", line+lines, text[strings.Index(text, ":"):])
}

func decodeDocument(doc *yaml.Node, left *budget) (*NodeConfig, error) {
	if isEmpty(doc) {
		return nil, nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: a NodeConfig is an object with apiVersion, kind and spec, not %s", root.Line, describe(root))
	}
	if err := checkKind(root); err != nil {
		return nil, err
	}
	var c NodeConfig
	d := decoder{left: left, placed: c.placed}
	d.object(root, "", &c)
	c.Spec.Instance.LocalStorage.Strategy = strategy(c.Spec.Instance.LocalStorage.Strategy)
	// Block scalars (|) end in a line break, which Amazon's nodeadm takes.
	for _, text := range []*string{&c.Spec.Cluster.Name, &c.Spec.Cluster.APIServerEndpoint, &c.Spec.Cluster.CIDR} {
		*text = strings.TrimSpace(*text)
	}
	return &c, errors.Join(d.errs...)
}

// strategy returns a strategy in the form of the constants, and "none" as an empty
// text. Amazon's nodeadm ignores upper and lower case too.
func strategy(text string) string {
	for _, known := range []string{RAID0, RAID10, Mount} {
		if strings.EqualFold(text, known) {
			return known
		}
	}
	if strings.EqualFold(text, "none") {
		return ""
	}
	return text
}

// checkKind runs before all other checks, because every field of a document of another
// kind is unknown.
func checkKind(root *yaml.Node) error {
	version, kind := scalarAt(root, "apiVersion"), scalarAt(root, "kind")
	switch {
	case version == APIVersion && kind == Kind:
		return nil
	case version == "" || kind == "":
		return fmt.Errorf("line %d: a NodeConfig begins with apiVersion: %s and kind: %s", root.Line, APIVersion, Kind)
	case strings.HasPrefix(version, Group+"/") && kind == Kind:
		return fmt.Errorf("line %d: apiVersion %s is not supported; the supported version is %s", root.Line, version, APIVersion)
	default:
		return fmt.Errorf("line %d: apiVersion %s, kind %s is not a NodeConfig (%s)", root.Line, version, kind, APIVersion)
	}
}

func scalarAt(object *yaml.Node, name string) string {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name && object.Content[i+1].Kind == yaml.ScalarNode {
			return object.Content[i+1].Value
		}
	}
	return ""
}

// describe returns the kind of a node for messages.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return describe(n.Alias)
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	default:
		return "text"
	}
}
