package scrub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// nodeConfigRules has the rule for NodeConfigs on the machine.
func nodeConfigRules() []Rule {
	return []Rule{
		{
			ID: "nodeconfig-sources", Phase: State, Groups: []string{"bootstrap"}, Verb: plan.Remove,
			Paths: []string{nodeConfigs}, Owner: "user data",
			Why:         "NodeConfigs of the old cluster override the new node's user data; NodeConfigs that name no cluster belong to the image and stay",
			Regenerated: "user data", Source: "amazon-eks-ami nodeadm, --config-source",
			Find: clusterNodeConfigs,
		},
	}
}

// nodeConfigs are the NodeConfigs that nodeadm and `eksnode init` merge with
// those in user data. Scripts in user data write them, and so do makers of
// images, for example to configure the handler of a container runtime.
const nodeConfigs = "/etc/eks/nodeadm.d/*"

// clusterNodeConfigs plans the removal of NodeConfigs that name a cluster. An
// unreadable NodeConfig is a finding, because first boot fails on it.
func clusterNodeConfigs(_ context.Context, h *host.Host) (plan.Answer, error) {
	names, err := glob(h, nodeConfigs)
	if err != nil {
		return plan.Answer{}, err
	}
	var answer plan.Answer
	for _, name := range names {
		if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) {
			continue // no first boot reads it
		}
		st, err := h.Files.Stat(name)
		if leadsNowhere(err) || err == nil && !st.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return plan.Answer{}, err
		}
		text, err := h.Content(name)
		if err != nil {
			return plan.Answer{}, err
		}
		switch named, err := namesCluster(text); {
		case err != nil:
			answer.Find(name, fmt.Sprintf("not readable as a NodeConfig, so first boot would fail (%v): repair or remove the file", err))
		case named:
			answer.Act(removeAction(h, name, "names the old cluster, and would override a new node's user data"))
		}
	}
	return answer, nil
}

// namesCluster reports whether a NodeConfig in a file names a cluster.
func namesCluster(text []byte) (bool, error) {
	if !bytes.Contains(text, []byte("NodeConfig")) {
		return false, nil
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var config struct {
			Kind string `yaml:"kind"`
			Spec struct {
				Cluster map[string]any `yaml:"cluster"`
			} `yaml:"spec"`
		}
		if err := d.Decode(&config); errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if config.Kind == "NodeConfig" && len(config.Spec.Cluster) > 0 {
			return true, nil
		}
	}
}
