package bootstrap

import (
	"fmt"
	"maps"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/manifest"
)

// defaults are the image's settings, and their NodeConfig.
type defaults struct {
	manifest.Defaults
	config *nodeconfig.NodeConfig
}

func readDefaults(h *host.Host) (defaults, error) {
	d := defaults{config: &nodeconfig.NodeConfig{APIVersion: nodeconfig.APIVersion, Kind: nodeconfig.Kind}}
	var err error
	if d.Defaults, err = manifest.LoadDefaults(h); err != nil || d.Spec == nil {
		return d, err
	}
	if d.config, err = nodeconfig.DecodeSpec(d.Spec); err != nil {
		return d, fmt.Errorf("reading the image's settings %s: %w", manifest.DefaultsPath, err)
	}
	return d, nil
}

// under returns the image's settings with those of the user over them.
func (d defaults) under(user *nodeconfig.NodeConfig) (*nodeconfig.NodeConfig, error) {
	merged := *d.config
	if err := merged.Merge(user); err != nil {
		return nil, err
	}
	cluster := user.Spec.Cluster
	merged.Spec.Instance.Environment = d.unproxied(merged.Spec.Instance.Environment, cluster.APIServerEndpoint,
		cluster.CIDR)
	return &merged, nil
}

// unproxied adds the cluster's endpoint and service network to the names without a proxy,
// where those are the image's.
func (d defaults) unproxied(environment map[string]map[string]string, endpoint string,
	networks ...string) map[string]map[string]string {
	image, services := d.config.Spec.Instance.Environment[nodeconfig.DefaultEnvironment], maps.Clone(environment)
	all := maps.Clone(environment[nodeconfig.DefaultEnvironment])
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		if image[name] == "" || image[name] != all[name] {
			continue
		}
		if host, err := nodeconfig.EndpointHost(endpoint); err == nil {
			all[name] += "," + host
		}
		for _, network := range networks {
			all[name] += strings.TrimSuffix(","+network, ",")
		}
		services[nodeconfig.DefaultEnvironment] = all
	}
	return services
}

// set applies the settings of containerd, whose places depend on its version.
func (d defaults) set(n *node.Node) {
	n.Containerd.MaxConcurrentDownloads, n.Containerd.KeepUnpackedLayers = d.MaxConcurrentDownloads,
		d.KeepUnpackedLayers
}
