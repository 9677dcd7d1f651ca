package userdata

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/kubelet"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// kubeletStart reports why kubelets do not start with a configuration and flags. The
// function at reports a problem of a field, or of the argument with an index, which is -1
// for none.
func kubeletStart(config map[string]any, flags []string, base func(minor int) map[string]any, at func(warning bool, field string, argument int, said string)) {
	for _, v := range kubelet.Verdicts(base, config, flags) {
		if v.Flag {
			continue // kubeletArguments has reported the flag
		}
		if gate, found := strings.CutPrefix(v.Field, "featureGates."); found && !slices.Contains(kubelet.Gates(), gate) {
			if best := show.Nearest(gate, kubelet.Gates()); best != "" {
				v.Text += "; did you mean " + best + "?"
			}
		}
		at(!v.Always, v.Field, kubelet.FlagOf(v.Field, flags), v.Text)
	}
}

// scriptBase is the configuration that bootstrap.sh makes for a call with arguments for
// the kubelet.
func scriptBase(extra []string) func(minor int) map[string]any {
	return func(int) map[string]any {
		config := kubelet.Defaults()
		if !strings.Contains(strings.Join(extra, " "), "--reserved-cpus") {
			kubelet.ReserveInCgroups(config)
		}
		return config
	}
}

// kubeletStarts reports why kubelets do not start with the merged settings.
func (c *checker) kubeletStarts(of nodeconfig.Kubelet, places []placed) {
	var words []string
	var from []int
	for i, flag := range of.Flags {
		for _, word := range nodeconfig.Split(flag) {
			words, from = append(words, word), append(from, i)
		}
	}
	kubeletStart(of.Config, words, kubelet.Base, func(warning bool, field string, argument int, said string) {
		path := "spec.kubelet.config." + field
		if argument >= 0 {
			path, said = fmt.Sprintf("spec.kubelet.flags[%d]", from[argument]), field+": "+said
		}
		if !c.refused(path) {
			c.atPath(places, path, warning, said)
		}
	})
}

// scriptArguments checks the arguments of the kubelet that a script gets.
func (c *checker) scriptArguments(line int, field string, arguments []string) {
	c.kubeletArguments(line, field, arguments)
	if c.starts++; c.starts > maxConfigs || c.full() {
		return
	}
	kubeletStart(nil, arguments, scriptBase(arguments), func(warning bool, of string, _ int, said string) {
		c.either(warning, line, field, of+": "+said)
	})
}

// classStart reports why kubelets do not start with an EC2NodeClass' spec.kubelet.
func (c *checker) classStart(known *yaml.Node) {
	var settings map[string]any
	if known.Decode(&settings) == nil {
		kubeletStart(settings, nil, kubelet.Base, func(warning bool, field string, _ int, said string) {
			if line, _ := lineOf(known, field); !c.refused("spec.kubelet." + field) {
				c.either(warning, line, "spec.kubelet."+field, said)
			}
		})
	}
}
