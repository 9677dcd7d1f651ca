package nodeconfig

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pelletier/go-toml/v2"
)

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
	if b.Cluster.EnableOutpost != nil {
		a.Cluster.EnableOutpost = b.Cluster.EnableOutpost
	}

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
		{"name", a.Name, b.Name}, {"apiServerEndpoint", a.APIServerEndpoint, b.APIServerEndpoint}, {"cidr", a.CIDR, b.CIDR}, {"id", a.ID, b.ID},
	} {
		if f.earlier != "" && f.later != "" && f.earlier != f.later {
			lines = append(lines, fmt.Sprintf("two NodeConfigs contradict each other: spec.cluster.%s is %q and then %q; the later value is used", f.name, f.earlier, f.later))
		}
	}
	if len(a.CertificateAuthority) > 0 && len(b.CertificateAuthority) > 0 && !bytes.Equal(a.CertificateAuthority, b.CertificateAuthority) {
		lines = append(lines, "two NodeConfigs contradict each other: spec.cluster.certificateAuthority differs; the later value is used")
	}
	return lines
}

func over(to *string, later string) {
	if later != "" {
		*to = later
	}
}

func overList[S ~[]E, E any](to *S, later S) {
	if len(later) > 0 {
		*to = later
	}
}

func mergeMaps[V any](a, b map[string]V) map[string]V {
	if len(b) == 0 {
		return a
	}
	out := make(map[string]V, len(a)+len(b))
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
	return Document(mergeObjects(earlier, later))
}

func mergeObjects(earlier, later map[string]any) map[string]any {
	out := make(map[string]any, len(earlier)+len(later))
	maps.Copy(out, earlier)
	for name, value := range later {
		a, aIsObject := out[name].(map[string]any)
		b, bIsObject := value.(map[string]any)
		if aIsObject && bIsObject {
			value = mergeObjects(a, b)
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
	out, err := toml.Marshal(mergeObjects(a, b))
	return TOML(out), err
}

// maxTOML is the maximum size of a TOML document, in bytes.
const maxTOML = 64 << 10

// Table parses the document.
func (t TOML) Table() (map[string]any, error) {
	table, err := ReadTOML([]byte(t))
	var at *toml.DecodeError
	if errors.As(err, &at) {
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
	if nestsDeeper(table, maxNesting) {
		return nil, fmt.Errorf("the TOML nests more than %d deep", maxNesting)
	}
	return table, nil
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
