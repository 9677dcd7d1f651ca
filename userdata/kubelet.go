package userdata

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// kubeletConfig checks a KubeletConfiguration, which is config in Go and n in the text.
func (c *checker) kubeletConfig(path string, n *yaml.Node, config map[string]any) {
	for _, p := range kubelet.FieldProblems(math.MaxInt, config) {
		line, _ := lineOf(n, p.Field)
		c.either(p.Unknown, line, path+"."+p.Field, p.Text)
	}
}

// kubeletSettings are the fields of KubeletConfiguration that a description has,
// those with a name of their own included.
func (n Node) kubeletSettings() map[string]any {
	fields := maps.Clone(n.Kubelet)
	if fields == nil {
		fields = map[string]any{}
	}
	if n.MaxPods > 0 {
		fields["maxPods"] = int64(n.MaxPods)
	}
	return fields
}

// kubeletConfigFlags are the fields of the description's KubeletConfiguration as
// flags, in the order of the fields' names.
func (n Node) kubeletConfigFlags() ([]string, error) {
	var flags []string
	var errs []error
	fields := n.kubeletSettings()
	for _, name := range sortedNames(fields) {
		flag, ok := kubelet.SetBy(name)
		if !ok {
			errs = append(errs,
				fmt.Errorf("kubelet.%s: the kubelet has no flag for it, and this family takes only flags", name))
			continue
		}
		value, err := flagValue(flag, fields[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("kubelet.%s: %w", name, err))
			continue
		}
		if value != "" {
			flags = append(flags, "--"+flag.Name+"="+value)
		}
	}
	return flags, errors.Join(errs...)
}

func flagValue(f kubelet.Flag, value any) (string, error) {
	switch v := value.(type) {
	case map[string]any:
		if f.Between() == "" {
			return "", errors.New("must not be an object")
		}
		pairs := show.Each(sortedNames(v), func(name string) string { return name + f.Between() + scalarText(v[name]) })
		return strings.Join(pairs, ","), nil
	case []any:
		if taints := kubelet.Taints(map[string]any{f.Field: v}); f.Name == taintsFlag {
			return strings.Join(taints, ","), nil
		}
		return strings.Join(show.Each(v, scalarText), ","), nil
	case []string:
		return strings.Join(v, ","), nil
	case nil: // the default
		return "", nil
	default:
		if f.Between() != "" {
			return "", errors.New("must be an object")
		}
		return scalarText(v), nil
	}
}

func scalarText(value any) string {
	if f, ok := value.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// contradictions reports settings that the description makes in two ways with
// two values.
func (n Node) contradictions(add func(field, format string, args ...any)) {
	if _, there := n.kubeletSettings()["maxPods"]; there && n.MaxPodsExpression != "" {
		add("maxPodsExpression", "contradicts maxPods; give one of them")
	}
	type setting struct{ value, by string }
	byFlag := map[string]setting{}
	for name, value := range n.Kubelet {
		if flag, ok := kubelet.SetBy(name); ok && value != nil {
			text, _ := flagValue(flag, value)
			byFlag[flag.Name] = setting{text, "kubelet." + name + ": " + text}
		}
	}
	for _, own := range []struct{ field, flag, value string }{
		{"maxPods", "max-pods", strings.TrimPrefix(strconv.Itoa(n.MaxPods), "0")},
		{"cluster.dns", "cluster-dns", strings.Join(n.Cluster.DNSAddresses, ",")},
		{"taints", taintsFlag, strings.Join(n.Taints, ",")},
	} {
		if own.value == "" {
			continue
		}
		if other := byFlag[own.flag]; other.value != "" && other.value != own.value {
			add(own.field, "%s contradicts %s", own.value, other.by)
		}
		byFlag[own.flag] = setting{own.value, own.field + ": " + own.value}
	}
	lists := []string{"node-labels", "feature-gates"}
	given := map[string]string{}
	for a := range kubelet.Arguments(n.kubeletWords()) {
		name, value := kubelet.FlagName(a.Name), a.Value
		if other, there := byFlag[name]; there && other.value != value {
			add("kubeletArgs", "%s contradicts %s", a.Text, other.by)
		}
		if earlier, twice := given[name]; twice && earlier != value && !slices.Contains(lists, name) {
			add("kubeletArgs", "%s contradicts --%s=%s", a.Text, name, earlier)
		}
		given[name] = value
		for pair := range strings.SplitSeq(value, ",") {
			label, v, _ := strings.Cut(pair, "=")
			if other, there := n.Labels[label]; name == "node-labels" && there && other != v {
				add("kubeletArgs", "--node-labels=%s contradicts labels: %s=%s", pair, label, other)
			}
		}
	}
	n.bootstrapContradictions(add)
}

// kubeletWords are the words of the description's kubelet flags.
func (n Node) kubeletWords() []string { return nodeconfig.Split(strings.Join(n.KubeletArgs, " ")) }

// bootstrapContradictions compares the flags of bootstrap.sh with the rest of
// the description.
func (n Node) bootstrapContradictions(add func(field, format string, args ...any)) {
	described := map[string]string{
		"apiserver-endpoint": n.Cluster.Endpoint, "b64-cluster-ca": n.Cluster.CA, "cluster-id": n.Cluster.Outpost,
		"dns-cluster-ip":     strings.Join(n.Cluster.DNSAddresses, ","),
		"kubelet-extra-args": strings.Join(n.KubeletArgs, " "),
	}
	if n.Cluster.IPv6() {
		described["ip-family"], described["service-ipv6-cidr"] = "ipv6", n.Cluster.CIDR
	} else {
		described["ip-family"], described["service-ipv4-cidr"] = "ipv4", n.Cluster.CIDR
	}
	if _, there := n.kubeletSettings()["maxPods"]; there {
		described["use-max-pods"] = "false"
	}
	if n.LocalStorage.Strategy != "" {
		described["local-disks"] = strings.ToLower(n.LocalStorage.Strategy)
	}
	for _, name := range sortedNames(n.Bootstrap) {
		if other := described[name]; other != "" && other != n.Bootstrap[name] {
			add("bootstrap."+name, "%q contradicts %q of the rest of the description", n.Bootstrap[name], other)
		}
	}
}

// kubeletStart reports why kubelets do not start with a configuration and flags. The
// function at reports a problem of a field, or of the argument with an index, which is -1
// for none.
func kubeletStart(
	config map[string]any, flags []string, base func(minor int) map[string]any,
	at func(warning bool, field string, argument int, said string),
) {
	for _, v := range kubelet.Verdicts(base, config, flags) {
		if v.Flag {
			continue // kubeletArguments has reported the flag
		}
		gate, found := strings.CutPrefix(v.Field, "featureGates.")
		if found && !slices.Contains(kubelet.Gates(), gate) {
			v.Text += show.Meant(gate, kubelet.Gates())
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
			path, said = fmt.Sprintf(flagPath, from[argument]), field+": "+said
		}
		if in, line, field := c.placeOf(places, path); !in.refused(line, field) {
			in.either(warning, line, field, said)
		}
	})
}

func (c *checker) scriptArguments(line int, field string, arguments []string) {
	c.kubeletArguments(line, field, arguments)
	c.tainted(arguments, nil, func(said string) { c.warn(line, field, "%s", said) })
	if c.starts++; c.starts > maxConfigs || c.full() {
		return
	}
	kubeletStart(nil, arguments, scriptBase(arguments), func(warning bool, of string, _ int, said string) {
		c.either(warning, line, field, of+": "+said)
	})
}

// classStart reports why kubelets do not start with an EC2NodeClass' spec.kubelet, which is
// settings in Go.
func (c *checker) classStart(known *yaml.Node, settings map[string]any) {
	kubeletStart(settings, nil, kubelet.Base, func(warning bool, field string, _ int, said string) {
		if line, _ := lineOf(known, field); !c.refused(line, "spec.kubelet."+field) {
			c.either(warning, line, "spec.kubelet."+field, said)
		}
	})
}
