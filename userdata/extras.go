package userdata

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

// Part is a part of a MIME message.
type Part struct {
	ContentType string `json:"contentType"`
	Content     string `json:"content"`
}

// LocalStorage is the use of the instance store, as in NodeConfig.
type LocalStorage struct {
	// Strategy is RAID0, RAID10 or Mount.
	Strategy       string   `json:"strategy,omitempty" yaml:"strategy,omitempty"`
	MountPath      string   `json:"mountPath,omitempty" yaml:"mountPath,omitempty"`
	DisabledMounts []string `json:"disabledMounts,omitempty" yaml:"disabledMounts,omitempty"`
}

// Containerd is containerd's configuration.
type Containerd struct {
	// Config is TOML that is merged over the machine's own.
	Config          string         `json:"config,omitempty" yaml:"config,omitempty"`
	BaseRuntimeSpec map[string]any `json:"baseRuntimeSpec,omitempty" yaml:"baseRuntimeSpec,omitempty"`
}

// Proxy is a proxy for HTTP.
type Proxy struct {
	HTTP  string `json:"http,omitempty"`
	HTTPS string `json:"https,omitempty"`
	// None are the hosts that are reached without the proxy.
	None []string `json:"noProxy,omitempty"`
}

// Network is the resolution of names.
type Network struct {
	Nameservers []string `json:"nameservers,omitempty" yaml:"nameservers,omitempty"`
	Domains     []string `json:"domains,omitempty" yaml:"domains,omitempty"`
}

// environment is the description's environment with the proxy.
func (n Node) environment() map[string]map[string]string {
	out := map[string]map[string]string{}
	for service, variables := range n.Environment {
		out[service] = maps.Clone(variables)
	}
	for name, value := range map[string]string{
		"HTTP_PROXY": n.Proxy.HTTP, "HTTPS_PROXY": n.Proxy.HTTPS, "NO_PROXY": strings.Join(n.Proxy.None, ","),
	} {
		if value == "" {
			continue
		}
		if out[nodeconfig.DefaultEnvironment] == nil {
			out[nodeconfig.DefaultEnvironment] = map[string]string{}
		}
		out[nodeconfig.DefaultEnvironment][name] = value
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// without reports fields that a family cannot express.
func (n Node) without(why string, fields ...string) error {
	given := map[string]bool{
		"maxPodsExpression": n.MaxPodsExpression != "", "nodeConfigs": len(n.NodeConfigs) > 0, "featureGates": len(n.FeatureGates) > 0,
		"containerd": n.Containerd.Config != "" || len(n.Containerd.BaseRuntimeSpec) > 0, "containerd.baseRuntimeSpec": len(n.Containerd.BaseRuntimeSpec) > 0,
		"network":      len(n.Network.Nameservers)+len(n.Network.Domains) > 0,
		"localStorage": n.LocalStorage.Strategy != "", "localStorage.mountPath": n.LocalStorage.MountPath != "",
		"localStorage.disabledMounts": len(n.LocalStorage.DisabledMounts) > 0,
		"pre":                         len(n.Pre) > 0, "post": len(n.Post) > 0, "parts": len(n.Parts) > 0,
		"bootstrap": len(n.Bootstrap) > 0, "settings": len(n.Settings) > 0,
	}
	var errs []error
	for _, field := range fields {
		if given[field] {
			errs = append(errs, fmt.Errorf("%s: %s", field, why))
		}
	}
	return errors.Join(errs...)
}
