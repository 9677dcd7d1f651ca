package provisioner

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// NodeDefaults are settings of an image for its nodes.
type NodeDefaults struct {
	// Settings of every node's kubelet: a KubeletConfiguration in YAML or JSON. In
	// HCL, `jsonencode({ containerLogMaxSize = "50Mi" })` makes one. First boot
	// merges the user data over it. Fields that the kubelet does not have, and
	// values with which it does not start, are refused.
	KubeletDefaults string `json:"kubelet_defaults,omitempty" mapstructure:"kubelet_defaults" flag:"file"`
	// Mirrors of container registries, such as
	// `{ "docker.io" = "https://mirror.example" }`. Several mirrors of a registry
	// are separated by commas, and the registry itself comes last. `*` means
	// every registry without mirrors of its own. An address with `/v2` in its path
	// replaces the path. The authority of a mirror belongs in `ca_certificates`.
	RegistryMirrors map[string]string `json:"registry_mirrors,omitempty" mapstructure:"registry_mirrors"`
	// Most layers of an image that containerd downloads at once. Defaults to
	// containerd's own `3`.
	MaxConcurrentDownloads int `json:"max_concurrent_downloads,omitempty" mapstructure:"max_concurrent_downloads"`
	// Keep the packed layers of images on nodes, for programs that pull layers from
	// other nodes. This sets containerd's `discard_unpacked_layers` to `false`.
	// Defaults to `false`.
	KeepUnpackedLayers bool `json:"keep_unpacked_layers,omitempty" mapstructure:"keep_unpacked_layers"`
	// Proxy of every node, for the kubelet, containerd and all other services. The
	// metadata service, EKS endpoints, the cluster's own endpoint and its service
	// network never use the proxy. The user data can set other variables.
	NodeProxy string `json:"node_proxy,omitempty" mapstructure:"node_proxy"`
	// Additional names, addresses and networks that do not use `node_proxy`.
	NodeNoProxy []string `json:"node_no_proxy,omitempty" mapstructure:"node_no_proxy"`
}

// direct are the places that never use a proxy: this machine, the metadata service, the
// agent of EKS Pod Identity, EKS, and the service networks that EKS chooses.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html,
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-config-ipv6.html
var direct = []string{
	"localhost", "127.0.0.1", "::1", "169.254.169.254", "fd00:ec2::254", "169.254.170.23", "fd00:ec2::23",
	".eks.amazonaws.com", ".eks.amazonaws.com.cn", ".svc", ".cluster.local", "10.100.0.0/16", "172.20.0.0/16",
}

// nodeSpec is the spec of a NodeConfig with the settings; empty if there are none.
func (s Spec) nodeSpec() (map[string]any, error) {
	spec := map[string]any{}
	config, err := s.kubeletDefaults()
	if s.Swap != "" && err == nil {
		withSwap := map[string]any{"failSwapOn": false, "memorySwap": map[string]any{"swapBehavior": "LimitedSwap"}}
		maps.Copy(withSwap, config)
		config = withSwap
	}
	if len(config) > 0 {
		spec["kubelet"] = map[string]any{"config": config}
	}
	if s.SOCI {
		spec["featureGates"] = map[string]any{"FastImagePull": true}
	}
	if s.NodeProxy != "" {
		variables := proxyVariables(s.NodeProxy, slices.Concat(direct, s.NodeNoProxy))
		spec["instance"] = map[string]any{"environment": map[string]any{"default": variables}}
	}
	return spec, err
}

// defaultsFiles are the file with the settings and those of the mirrors.
func (n *node) defaultsFiles() []plan.File {
	var files []plan.File
	d := manifest.Defaults{
		MaxConcurrentDownloads: n.spec.MaxConcurrentDownloads, KeepUnpackedLayers: n.spec.KeepUnpackedLayers,
	}
	if spec, err := n.spec.nodeSpec(); err == nil && len(spec) > 0 { // Validate has refused an error
		d.Spec, _ = json.Marshal(spec) // of plain values
	}
	if text, err := json.MarshalIndent(d, "", "  "); err == nil && string(text) != "{}" {
		files = append(files, textFile(manifest.DefaultsPath, append(text, '\n'), "first boot merges the user data "+
			"over these settings"))
	}
	for _, registry := range slices.Sorted(maps.Keys(n.spec.RegistryMirrors)) {
		folder := strings.Replace(registry, "*", "_default", 1)
		files = append(files, textFile(path.Join(mirrorsFolder, folder, "hosts.toml"),
			hostsTOML(n.spec.RegistryMirrors[registry]), "registry_mirrors has mirrors of "+registry))
	}
	return files
}

// mirrorsFolder is where containerd looks for the mirrors of a registry.
const mirrorsFolder = "/etc/containerd/certs.d"

// hostsTOML is containerd's file about the mirrors of a registry
// (https://github.com/containerd/containerd/blob/main/docs/hosts.md).
func hostsTOML(mirrors string) []byte {
	var text strings.Builder
	text.WriteString("# Written by eksnode for registry_mirrors.\n")
	for mirror := range strings.SplitSeq(mirrors, ",") {
		mirror = strings.TrimSuffix(strings.TrimSpace(mirror), "/")
		fmt.Fprintf(&text, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", mirror)
		if strings.Contains(mirror+"/", "/v2/") {
			text.WriteString("  override_path = true\n")
		}
	}
	return []byte(text.String())
}

// oldDefaults plans the removal of the files of an earlier provision that the spec no
// longer has and that nobody changed.
func (n *node) oldDefaults(h *host.Host) ([]plan.Action, error) {
	m, err := manifest.Load(h)
	if err != nil {
		return nil, err
	}
	wanted := n.defaultsFiles()
	return planUnwanted(h, m, "the spec no longer has these settings", func(name string) bool {
		ours := name == manifest.DefaultsPath || strings.HasPrefix(name, mirrorsFolder+"/")
		return ours && !slices.ContainsFunc(wanted, func(f plan.File) bool { return f.Path == name })
	})
}

func (s Spec) kubeletDefaults() (map[string]any, error) {
	if s.KubeletDefaults == "" {
		return nil, nil
	}
	var config map[string]any
	if _, err := strictjson.ReadYAML("the text", []byte(s.KubeletDefaults), &config); err != nil {
		return nil, surface.Errorf("{kubelet_defaults}: %w", err)
	}
	for name, want := range map[string]string{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
	} {
		if has := config[name]; has != nil && has != want {
			return nil, surface.Errorf("{kubelet_defaults}: %s is %q, not %s", name, show.Printable(fmt.Sprint(has)),
				want)
		}
		delete(config, name)
	}
	if len(config) == 0 {
		return nil, surface.Errorf("{kubelet_defaults} has no fields")
	}
	return config, nil
}

// validateKubeletDefaults checks the configuration for the spec's kubelet.
func (s Spec) validateKubeletDefaults(p *problems) {
	config, err := s.kubeletDefaults()
	minor := s.minor()
	if *p = append(*p, err); err != nil || len(config) == 0 || minor == 0 {
		return
	}
	if s.Swap != "" && config["failSwapOn"] == true {
		p.add("{kubelet_defaults}: failSwapOn contradicts %s", surface.Name("swap").Is(s.Swap))
		return
	}
	found := kubelet.FieldProblems(minor, config)
	if len(found) == 0 {
		found = kubelet.Problems(minor, kubelet.Base(minor), config, nil)
	}
	for _, f := range found {
		p.add("{kubelet_defaults}: %s: %s", f.Field, f.Text)
	}
	if _, has := config["providerID"]; has {
		p.add("{kubelet_defaults}: providerID: names one instance, but every node would have it")
	}
}

var registryForm = regexp.MustCompile(`^(\*|[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]+)?)$`)

// validateNodeDefaults refuses settings without an effect, and addresses that are none.
func (s Spec) validateNodeDefaults(p *problems) {
	s.validateKubeletDefaults(p)
	for _, registry := range slices.Sorted(maps.Keys(s.RegistryMirrors)) {
		name := surface.Name("registry_mirrors").Key(registry)
		if !registryForm.MatchString(registry) {
			p.add("%s is not a registry, such as docker.io or registry.example:5000, and not *", name)
		}
		for mirror := range strings.SplitSeq(s.RegistryMirrors[registry], ",") {
			if why := badAddress(strings.TrimSpace(mirror), false); why != "" {
				p.add("%s: %s", name, why)
			}
		}
	}
	p.proxy("node_proxy", s.NodeProxy, false, "node_no_proxy", s.NodeNoProxy)
	if s.MaxConcurrentDownloads < 0 {
		p.add("{max_concurrent_downloads} must be at least 1")
	}
	if !s.joins() {
		for _, f := range []struct {
			field surface.Name
			set   bool
		}{
			{"kubelet_defaults", s.KubeletDefaults != ""}, {"swap", s.Swap != ""}, {"soci", s.SOCI},
			{"node_proxy", s.NodeProxy != ""},
			{"max_concurrent_downloads", s.MaxConcurrentDownloads > 0}, {"keep_unpacked_layers", s.KeepUnpackedLayers},
		} {
			if f.set {
				p.add("%s has no effect with %s: another first boot configures the node", f.field,
					surface.Name("bootstrap").Is(bootNone))
			}
		}
	}
}
