package nodeconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// The limits for all NodeConfigs of one text together. Real NodeConfigs have some
// kilobytes.
const (
	maxYAML      = 256 << 10 // bytes of YAML
	maxDocuments = 100
	// maxProblems is the maximum number of listed problems of a document.
	maxProblems = 100
)

// budget is the unused part of the limits.
type budget struct{ yaml, values, documents int }

func newBudget() *budget { return &budget{maxYAML, strictjson.MaxValues, maxDocuments} }

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

// DecodeSpec reads the NodeConfig with a spec in JSON, as SpecJSON writes it.
func DecodeSpec(spec json.RawMessage) (*NodeConfig, error) {
	return Decode(fmt.Appendf(nil, `{"apiVersion": %q, "kind": %q, "spec": %s}`, APIVersion, Kind, spec))
}

// decode reads a text. before is the number of lines of the user data before the text.
// Like Amazon's nodeadm, decode reads the first document only.
func decode(text []byte, before int, left *budget) (c *NodeConfig, warnings []string, err error) {
	if left.yaml -= len(text); left.yaml < 0 {
		return nil, nil, fmt.Errorf("the NodeConfigs have more than %d KiB", maxYAML>>10)
	}
	dec := yaml.NewDecoder(bytes.NewReader(strictjson.AsYAML(text)))
	for c == nil {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil, nil, errors.New("the text contains no document: a NodeConfig is YAML with apiVersion " +
				APIVersion + " and kind " + Kind)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the YAML: %s",
				moved(strings.TrimPrefix(err.Error(), "yaml: "), before))
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
		warnings = append(warnings, "the YAML after the first document is ignored: Amazon's nodeadm reads the "+
			"first document only; put the rest into a MIME part of its own")
	default:
		warnings = append(warnings, fmt.Sprintf("line %d: a second YAML document is ignored: Amazon's nodeadm "+
			"reads the first document only; put the second into a MIME part of its own", next.Line+before))
	}
	return c, warnings, nil
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
		return nil, fmt.Errorf("line %d: a NodeConfig is an object with apiVersion, kind and spec, not %s", root.Line,
			strictjson.Kind(root))
	}
	if err := checkKind(root); err != nil {
		return nil, err
	}
	var c NodeConfig
	var errs []error
	d := strictjson.Decoder{Left: &left.values, Placed: c.placed, Refused: withoutUs,
		Fail: func(line int, path, text string) {
			switch {
			case len(errs) < maxProblems:
				errs = append(errs, fmt.Errorf("line %d: %s: %s", line, Printable(cmp.Or(path, "the document")),
					Printable(text)))
			case len(errs) == maxProblems:
				errs = append(errs, fmt.Errorf("line %d: further problems are not listed", line))
			}
		}}
	d.Object(root, "", &c)
	c.Spec.Instance.LocalStorage.Strategy = strategy(c.Spec.Instance.LocalStorage.Strategy)
	// Block scalars (|) end in a line break, which Amazon's nodeadm takes.
	for _, text := range []*string{&c.Spec.Cluster.Name, &c.Spec.Cluster.APIServerEndpoint, &c.Spec.Cluster.CIDR} {
		*text = strings.TrimSpace(*text)
	}
	return &c, errors.Join(errs...)
}

// withoutUs maps unsupported fields of newer versions of amazon-eks-ami, or of
// eks-hybrid's nodeadm, to an explanation.
var withoutUs = map[string]string{
	"spec.hybrid": "is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances need " +
		"no such field",
	"spec.cluster.region": "is for machines outside of AWS, which eks-hybrid's nodeadm joins; EC2 instances know " +
		"their region",
	"spec.instance.storage": "is not supported; format and mount EBS volumes in a user data script, which runs " +
		"before containerd and the kubelet start",
}

// strategy returns a strategy in the form of the constants. Amazon's nodeadm ignores
// upper and lower case too.
func strategy(text string) string {
	for _, known := range strategies {
		if strings.EqualFold(text, known) {
			return known
		}
	}
	return text
}

// checkKind runs before all other checks, because every field of a document of another
// kind is unknown.
func checkKind(root *yaml.Node) error {
	version, kind := strictjson.Text(root, "apiVersion"), strictjson.Text(root, "kind")
	switch {
	case version == APIVersion && kind == Kind:
		return nil
	case version == "" || kind == "":
		return fmt.Errorf("line %d: a NodeConfig begins with apiVersion: %s and kind: %s", root.Line, APIVersion, Kind)
	case strings.HasPrefix(version, Group+"/") && kind == Kind:
		return fmt.Errorf("line %d: apiVersion %s is not supported; the supported version is %s", root.Line, version,
			APIVersion)
	default:
		return fmt.Errorf("line %d: apiVersion %s, kind %s is not a NodeConfig (%s)", root.Line, version, kind,
			APIVersion)
	}
}

// Merge merges a later document into c. Values of the later document override those of
// c, kubelet flags are appended, and objects and TOML tables merge member by member.
// Missing values, empty texts and empty lists of the later document have no effect.
func (c *NodeConfig) Merge(later *NodeConfig) error {
	c.mergePlaces(later)
	a, b := &c.Spec, &later.Spec
	c.Metadata = MergeDocuments(c.Metadata, later.Metadata)
	over(&a.Cluster.Name, b.Cluster.Name)
	over(&a.Cluster.APIServerEndpoint, b.Cluster.APIServerEndpoint)
	overList(&a.Cluster.CertificateAuthority, b.Cluster.CertificateAuthority)
	over(&a.Cluster.CIDR, b.Cluster.CIDR)
	over(&a.Cluster.ID, b.Cluster.ID)
	over(&a.Cluster.EnableOutpost, b.Cluster.EnableOutpost)

	merged, err := MergeTOML(a.Containerd.Config, b.Containerd.Config)
	if err != nil {
		return fmt.Errorf("spec.containerd.config: %w", err)
	}
	a.Containerd.Config = merged
	a.Containerd.BaseRuntimeSpec = MergeDocuments(a.Containerd.BaseRuntimeSpec, b.Containerd.BaseRuntimeSpec)

	a.Kubelet.Config = MergeDocuments(a.Kubelet.Config, b.Kubelet.Config)
	a.Kubelet.Flags = append(a.Kubelet.Flags[:len(a.Kubelet.Flags):len(a.Kubelet.Flags)], b.Kubelet.Flags...)
	over(&a.Kubelet.MaxPodsExpression, b.Kubelet.MaxPodsExpression)

	over(&a.Instance.LocalStorage.Strategy, b.Instance.LocalStorage.Strategy)
	over(&a.Instance.LocalStorage.MountPath, b.Instance.LocalStorage.MountPath)
	overList(&a.Instance.LocalStorage.DisabledMounts, b.Instance.LocalStorage.DisabledMounts)
	overList(&a.Instance.Network.Nameservers, b.Instance.Network.Nameservers)
	overList(&a.Instance.Network.Domains, b.Instance.Network.Domains)
	a.Instance.Environment = mergeEnvironment(a.Instance.Environment, b.Instance.Environment)
	a.FeatureGates = mergeMaps(a.FeatureGates, b.FeatureGates)
	return nil
}

// Contradictions lists the fields in which a later document names another cluster than
// c. This is allowed, but rarely intended.
func (c *NodeConfig) Contradictions(later *NodeConfig) []string {
	a, b := c.Spec.Cluster, later.Spec.Cluster
	var lines []string
	for _, f := range []struct{ name, earlier, later string }{
		{"name", a.Name, b.Name}, {"apiServerEndpoint", a.APIServerEndpoint, b.APIServerEndpoint},
		{"cidr", a.CIDR, b.CIDR}, {"id", a.ID, b.ID},
	} {
		if f.earlier != "" && f.later != "" && f.earlier != f.later {
			lines = append(lines, fmt.Sprintf("two NodeConfigs contradict each other: spec.cluster.%s is %q and "+
				"then %q; the later value is used", f.name, f.earlier, f.later))
		}
	}
	if len(a.CertificateAuthority) > 0 && len(b.CertificateAuthority) > 0 &&
		!bytes.Equal(a.CertificateAuthority, b.CertificateAuthority) {
		lines = append(lines, "two NodeConfigs contradict each other: spec.cluster.certificateAuthority differs; "+
			"the later value is used")
	}
	return lines
}

func over[T comparable](to *T, later T) { *to = cmp.Or(later, *to) }

func overList[S ~[]E, E any](to *S, later S) {
	if len(later) > 0 {
		*to = later
	}
}

func mergeMaps[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := map[string]V{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func mergeEnvironment(a, b map[string]map[string]string) map[string]map[string]string {
	out := mergeMaps(a, nil)
	for service, variables := range b {
		out = mergeMaps(out, map[string]map[string]string{service: mergeMaps(out[service], variables)})
	}
	return out
}

// MergeDocuments returns earlier with the values of later: objects merge, other values
// are replaced. The arguments are not changed.
func MergeDocuments(earlier, later Document) Document {
	if len(later) == 0 {
		return earlier
	}
	out := maps.Clone(earlier)
	if out == nil {
		out = Document{}
	}
	for name, value := range later {
		a, aIsObject := out[name].(map[string]any)
		b, bIsObject := value.(map[string]any)
		if aIsObject && bIsObject {
			value = map[string]any(MergeDocuments(a, b))
		}
		out[name] = value
	}
	return out
}

// MergeTOML returns earlier with the values of later: tables merge, other values are
// replaced. If one document is empty, the other is returned unchanged.
func MergeTOML(earlier, later TOML) (TOML, error) {
	if earlier == "" || later == "" {
		return earlier + later, nil
	}
	a, err := earlier.Table()
	if err != nil {
		return "", err
	}
	b, err := later.Table()
	if err != nil {
		return "", err
	}
	out, err := toml.Marshal(map[string]any(MergeDocuments(a, b)))
	return TOML(out), err
}

// maxTOML is the maximum size of a TOML document, in bytes.
const maxTOML = 64 << 10

// Table parses the document.
func (t TOML) Table() (map[string]any, error) {
	table, err := ReadTOML([]byte(t))
	if at, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, _ := at.Position()
		return nil, fmt.Errorf("line %d of the TOML: %w", row, err)
	}
	return table, err
}

// ReadTOML parses a TOML document of bounded size and depth.
func ReadTOML(text []byte) (map[string]any, error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("the TOML has more than %d KiB", maxTOML>>10)
	}
	var table map[string]any
	if err := toml.Unmarshal(text, &table); err != nil {
		return nil, err
	}
	if nestsDeeper(table, strictjson.MaxNesting) {
		return nil, fmt.Errorf("the TOML nests more than %d deep", strictjson.MaxNesting)
	}
	return table, nil
}

// The names of containerd's CRI plugins in versions 2 and 3 of its configuration.
const (
	CRIv2     = "io.containerd.grpc.v1.cri"
	ImagesV3  = "io.containerd.cri.v1.images"
	RuntimeV3 = "io.containerd.cri.v1.runtime"
)

// ContainerdVersion returns the version of a containerd configuration, or 0 if the
// settings fit every version. In version 3, CRIv2 has the settings of streams only.
func ContainerdVersion(table map[string]any) (int64, error) {
	version, _ := table["version"].(int64)
	if given := table["version"]; given != nil && version < 2 {
		return 0, fmt.Errorf("version = %#v is not supported; write the configuration in version 2 or 3", given)
	}
	plugins, _ := table["plugins"].(map[string]any)
	cri, _ := plugins[CRIv2].(map[string]any)
	old, newer := version == 2, version > 2 || plugins[ImagesV3] != nil || plugins[RuntimeV3] != nil
	for name := range cri {
		old = old || name != "disable_tcp_service" && !strings.Contains(name, "stream")
	}
	switch {
	case old && newer:
		return 0, fmt.Errorf("containerd does not mix version 2 (version = 2, settings of %s) and 3 (version = 3, "+
			"%s, %s)", CRIv2, ImagesV3, RuntimeV3)
	case newer:
		return max(version, 3), nil
	case old:
		return 2, nil
	}
	return 0, nil
}

// nestsDeeper reports whether tables and lists are nested more than most levels deep.
func nestsDeeper(value any, most int) bool {
	var inner []any
	switch v := value.(type) {
	case map[string]any:
		inner = slices.Collect(maps.Values(v))
	case []any:
		inner = v
	default:
		return false
	}
	return most == 0 || slices.ContainsFunc(inner, func(i any) bool { return nestsDeeper(i, most-1) })
}
