package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

type kubeletField struct {
	// flag is the kubelet's flag, and setting the one of Bottlerocket's
	// settings.kubernetes; empty for none.
	flag, setting string
	// between is what separates name and value of a member, for an object.
	between string
}

// kubeletFieldTable are the fields that families without KubeletConfiguration
// can express. Sources: cmd/kubelet/app/options/options.go of k8s.io/kubernetes,
// settings-extensions/kubernetes of bottlerocket-settings-sdk.
func kubeletFieldTable() map[string]kubeletField {
	return map[string]kubeletField{
		"allowedUnsafeSysctls":            {flag: "allowed-unsafe-sysctls", setting: "allowed-unsafe-sysctls"},
		"clusterDNS":                      {flag: "cluster-dns", setting: "cluster-dns-ip"},
		"clusterDomain":                   {flag: "cluster-domain", setting: "cluster-domain"},
		"containerLogMaxFiles":            {flag: "container-log-max-files", setting: "container-log-max-files"},
		"containerLogMaxSize":             {flag: "container-log-max-size", setting: "container-log-max-size"},
		"cpuCFSQuota":                     {flag: "cpu-cfs-quota", setting: "cpu-cfs-quota-enforced"},
		"cpuManagerPolicy":                {flag: "cpu-manager-policy", setting: "cpu-manager-policy"},
		"cpuManagerReconcilePeriod":       {flag: "cpu-manager-reconcile-period", setting: "cpu-manager-reconcile-period"},
		"enforceNodeAllocatable":          {flag: "enforce-node-allocatable"},
		"eventBurst":                      {flag: "event-burst", setting: "event-burst"},
		"eventRecordQPS":                  {flag: "event-qps", setting: "event-qps"},
		"evictionHard":                    {flag: "eviction-hard", setting: "eviction-hard", between: "<"},
		"evictionMaxPodGracePeriod":       {flag: "eviction-max-pod-grace-period", setting: "eviction-max-pod-grace-period"},
		"evictionMinimumReclaim":          {flag: "eviction-minimum-reclaim", between: "="},
		"evictionSoft":                    {flag: "eviction-soft", setting: "eviction-soft", between: "<"},
		"evictionSoftGracePeriod":         {flag: "eviction-soft-grace-period", setting: "eviction-soft-grace-period", between: "="},
		"failSwapOn":                      {flag: "fail-swap-on"},
		"featureGates":                    {flag: "feature-gates", between: "="},
		"imageGCHighThresholdPercent":     {flag: "image-gc-high-threshold", setting: "image-gc-high-threshold-percent"},
		"imageGCLowThresholdPercent":      {flag: "image-gc-low-threshold", setting: "image-gc-low-threshold-percent"},
		"imageMinimumGCAge":               {flag: "minimum-image-ttl-duration", setting: "image-minimum-gc-age"},
		"kubeAPIBurst":                    {flag: "kube-api-burst", setting: "kube-api-burst"},
		"kubeAPIQPS":                      {flag: "kube-api-qps", setting: "kube-api-qps"},
		"kubeReserved":                    {flag: "kube-reserved", setting: "kube-reserved", between: "="},
		"kubeReservedCgroup":              {flag: "kube-reserved-cgroup"},
		"maxParallelImagePulls":           {setting: "max-parallel-image-pulls"},
		"maxPods":                         {flag: "max-pods", setting: "max-pods"},
		"memoryManagerPolicy":             {flag: "memory-manager-policy", setting: "memory-manager-policy"},
		"nodeStatusUpdateFrequency":       {flag: "node-status-update-frequency"},
		"podPidsLimit":                    {flag: "pod-max-pids", setting: "pod-pids-limit"},
		"podsPerCore":                     {flag: "pods-per-core"},
		"protectKernelDefaults":           {flag: "protect-kernel-defaults"},
		"readOnlyPort":                    {flag: "read-only-port"},
		"registryBurst":                   {flag: "registry-burst", setting: "registry-burst"},
		"registryPullQPS":                 {flag: "registry-qps", setting: "registry-qps"},
		"reservedSystemCPUs":              {flag: "reserved-cpus", setting: "reserved-cpus"},
		"resolvConf":                      {flag: "resolv-conf"},
		"seccompDefault":                  {flag: "seccomp-default", setting: "seccomp-default"},
		"serializeImagePulls":             {flag: "serialize-image-pulls"},
		"serverTLSBootstrap":              {flag: "rotate-server-certificates", setting: "server-tls-bootstrap"},
		"shutdownGracePeriod":             {setting: "shutdown-grace-period"},
		"shutdownGracePeriodCriticalPods": {setting: "shutdown-grace-period-for-critical-pods"},
		"systemReserved":                  {flag: "system-reserved", setting: "system-reserved", between: "="},
		"systemReservedCgroup":            {flag: "system-reserved-cgroup"},
		"topologyManagerPolicy":           {flag: "topology-manager-policy", setting: "topology-manager-policy"},
		"topologyManagerScope":            {flag: "topology-manager-scope", setting: "topology-manager-scope"},
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
	table := kubeletFieldTable()
	fields := n.kubeletSettings()
	for _, name := range sortedNames(fields) {
		field := table[name]
		if field.flag == "" {
			errs = append(errs, fmt.Errorf("kubelet.%s: the kubelet has no flag for it, and this family takes only flags", name))
			continue
		}
		value, err := field.flagValue(fields[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("kubelet.%s: %w", name, err))
			continue
		}
		if value != "" {
			flags = append(flags, "--"+field.flag+"="+value)
		}
	}
	return flags, errors.Join(errs...)
}

func (f kubeletField) flagValue(value any) (string, error) {
	switch v := value.(type) {
	case map[string]any:
		if f.between == "" {
			return "", errors.New("must not be an object")
		}
		pairs := show.Each(sortedNames(v), func(name string) string { return name + f.between + scalarText(v[name]) })
		return strings.Join(pairs, ","), nil
	case []any:
		values := show.Each(v, scalarText)
		return strings.Join(values, ","), nil
	default:
		if f.between != "" {
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
	table := kubeletFieldTable()
	fields := n.kubeletSettings()
	if v, there := n.Kubelet["maxPods"]; there && n.MaxPods > 0 && scalarText(v) != strconv.Itoa(n.MaxPods) {
		add("maxPods", "%d contradicts kubelet.maxPods %s", n.MaxPods, scalarText(v))
	}
	if _, there := fields["maxPods"]; there && n.MaxPodsExpression != "" {
		add("maxPodsExpression", "contradicts maxPods; give one of them")
	}
	if v, there := n.Kubelet["clusterDNS"]; there && len(n.Cluster.DNSAddresses) > 0 {
		if value, _ := table["clusterDNS"].flagValue(v); value != strings.Join(n.Cluster.DNSAddresses, ",") {
			add("cluster.dns", "%s contradicts kubelet.clusterDNS %s", strings.Join(n.Cluster.DNSAddresses, ","), value)
		}
	}
	byFlag := map[string]string{}
	for name, field := range table {
		if value, there := fields[name]; there && field.flag != "" {
			byFlag[field.flag], _ = field.flagValue(value)
		}
	}
	if len(n.Cluster.DNSAddresses) > 0 {
		byFlag["cluster-dns"] = strings.Join(n.Cluster.DNSAddresses, ",")
	}
	given := map[string]string{}
	for _, flag := range n.kubeletWords() {
		name, value, attached := strings.Cut(flag, "=")
		name = kubelet.FlagName(name)
		if !attached {
			value = "true"
		}
		if other, there := byFlag[name]; there && other != value {
			add("kubeletArgs", "%s contradicts %s", flag, n.whatSets(name, other))
		}
		if earlier, twice := given[name]; twice && earlier != value && !slices.Contains([]string{"node-labels", "register-with-taints", "feature-gates"}, name) {
			add("kubeletArgs", "%s contradicts --%s=%s", flag, name, earlier)
		}
		given[name] = value
		n.labelContradictions(name, value, add)
	}
	n.bootstrapContradictions(add)
}

// kubeletWords are the kubelet's flags of the description, one by one.
func (n Node) kubeletWords() []string {
	var words []string
	for _, arg := range n.KubeletArgs {
		words = append(words, nodeconfig.Split(arg)...)
	}
	return words
}

func (n Node) whatSets(flag, value string) string {
	if flag == "max-pods" && n.MaxPods > 0 {
		return "maxPods: " + value
	}
	if flag == "cluster-dns" && len(n.Cluster.DNSAddresses) > 0 {
		return "cluster.dns: " + value
	}
	for name, field := range kubeletFieldTable() {
		if field.flag == flag {
			return "kubelet." + name + ": " + value
		}
	}
	return value
}

func (n Node) labelContradictions(flag, value string, add func(field, format string, args ...any)) {
	if flag != "node-labels" {
		return
	}
	for pair := range strings.SplitSeq(value, ",") {
		name, v, _ := strings.Cut(pair, "=")
		if other, there := n.Labels[name]; there && other != v {
			add("kubeletArgs", "--node-labels=%s contradicts labels: %s=%s", pair, name, other)
		}
	}
}

// bootstrapContradictions compares the flags of bootstrap.sh with the rest of
// the description.
func (n Node) bootstrapContradictions(add func(field, format string, args ...any)) {
	described := map[string]string{
		"apiserver-endpoint": n.Cluster.Endpoint, "b64-cluster-ca": n.Cluster.CA, "cluster-id": n.Cluster.Outpost,
		"dns-cluster-ip": strings.Join(n.Cluster.DNSAddresses, ","), "kubelet-extra-args": strings.Join(n.KubeletArgs, " "),
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

func (c *checker) scriptArguments(line int, field string, arguments []string) {
	c.kubeletArguments(line, field, arguments)
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
		if line, _ := lineOf(known, field); !c.refused("spec.kubelet." + field) {
			c.either(warning, line, "spec.kubelet."+field, said)
		}
	})
}
