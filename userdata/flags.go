package userdata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/kubelet"
	"github.com/eksnode/packer-plugin-eksnode/internal/show"
)

// kubeletArguments checks arguments of the kubelet, which ends at once when one
// of them is wrong. The caller leaves out what a shell computes. $ and ` are text here,
// because nothing expands them later.
func (c *checker) kubeletArguments(line int, field string, arguments []string) {
	known := kubelet.Flags()
	for i := 0; i < len(arguments) && !c.full(); i++ {
		argument := arguments[i]
		name, value, attached := strings.Cut(argument, "=")
		f, there := known[kubelet.FlagName(name)]
		switch {
		case !strings.HasPrefix(name, "-"):
			c.fail(line, field, "%q is not a flag of the kubelet; a flag begins with --", nodeconfig.Printable(argument))
			continue
		case !there:
			c.fail(line, field, "unknown flag %s of the kubelet; %s", nodeconfig.Printable(name), nearestFlag(name, known))
			if !attached && i+1 < len(arguments) && !strings.HasPrefix(arguments[i+1], "-") {
				i++
			}
			continue
		case f.Last != "":
			c.warn(line, field, "%s: Kubernetes 1.%s was the last with this flag; newer kubelets do not start with it", name, f.Last)
		}
		if !attached && !f.Boolean() {
			if i+1 == len(arguments) {
				c.fail(line, field, "%s: the value is missing", name)
				continue
			}
			i++
			value = arguments[i]
		}
		if f.Name == "max-pods" {
			c.limit(line, field, value)
		}
		for _, said := range flagProblems(kubelet.FlagName(name), value) {
			c.fail(line, field, "%s: %s", name, said)
		}
	}
}

// limit notes a limit of the node's pods. The kubelet's flags win over its
// configuration.
func (c *checker) limit(line int, field, value string) {
	if n := len(c.maxPods); n > 0 && c.maxPods[n-1] != value {
		c.warn(line, field, "maxPods is %s here and %s elsewhere", value, c.maxPods[n-1])
	}
	c.maxPods = append(c.maxPods, value)
}

func nearestFlag(name string, known map[string]kubelet.Flag) string {
	best := show.Nearest(kubelet.FlagName(name), sortedNames(known))
	if best == "" {
		return "see kubelet --help"
	}
	return "did you mean --" + best + "?"
}

// flagProblems says what is wrong with the value of one flag, which is named without
// dashes.
func flagProblems(name, value string) []string {
	var said []string
	add := func(problem string) {
		if problem != "" {
			said = append(said, problem)
		}
	}
	f := kubelet.Flags()[name]
	if f.Boolean() && value == "" {
		value = "true"
	}
	switch name {
	case "node-labels":
		for pair := range strings.SplitSeq(value, ",") {
			key, v, found := strings.Cut(pair, "=")
			switch {
			case pair == "":
			case !found:
				add(strconv.Quote(pair) + " must be key=value")
			default:
				said = append(said, labelProblems(key, v)...)
			}
		}
	case "register-with-taints":
		for t := range strings.SplitSeq(value, ",") {
			if _, err := parseTaint(t); err != nil && t != "" {
				add(err.Error())
			}
		}
	case "eviction-hard", "eviction-soft":
		eachPair(value, "<", evictionProblem, add)
	case "eviction-minimum-reclaim":
		eachPair(value, "=", evictionProblem, add)
	case "eviction-soft-grace-period":
		eachPair(value, "=", gracePeriodProblem, add)
	case "kube-reserved", "system-reserved":
		eachPair(value, "=", reservedProblem, add)
	default:
		add(f.Problem(value))
	}
	return said
}

// eachPair checks the members of a list such as a=b,c=d.
func eachPair(list, separator string, wrong func(name, value string) string, add func(string)) {
	for pair := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(pair, separator)
		switch {
		case pair == "":
		case !found:
			add(fmt.Sprintf("%q must be name%svalue", pair, separator))
		default:
			add(wrong(strings.TrimSpace(name), strings.TrimSpace(value)))
		}
	}
}

// durationProblem says what is wrong with a duration such as 1m30s.
func durationProblem(value string) string {
	if _, err := time.ParseDuration(value); err != nil {
		return fmt.Sprintf("%q must be a duration such as 30s or 1m30s", value)
	}
	return ""
}

// labelProblems says what is wrong with a label that a node gives itself.
func labelProblems(name, value string) []string {
	var said []string
	if !labelName().MatchString(name) {
		said = append(said, strconv.Quote(name)+" is no label's name")
	}
	if !labelValue().MatchString(value) {
		said = append(said, strconv.Quote(value)+" is no value for "+name+": up to 63 letters, digits, -, _ and .")
	}
	if reserved(name) {
		said = append(said, strconv.Quote(name)+" is Kubernetes' own, and no node may give it to itself; put it there with kubectl label")
	}
	return said
}

// ownLabels are those of Kubernetes that nodes may give themselves, and prefixes
// below which they may (k8s.io/kubelet, pkg/apis/well_known_labels.go).
var (
	ownLabels = []string{
		"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/os",
		"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
	}
	ownPrefixes = []string{"kubelet.kubernetes.io", "node.kubernetes.io"}
)

// reserved says whether the kubelet and the API server refuse a label that a
// node gives itself.
func reserved(name string) bool {
	prefix, _, found := strings.Cut(name, "/")
	below := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	return found && (below("kubernetes.io") || below("k8s.io")) && !slices.Contains(ownLabels, name) && !slices.ContainsFunc(ownPrefixes, below)
}

// taintsOfFlags finds taints in kubelet flags.
func taintsOfFlags(flags []string) []string {
	var taints []string
	for i, flag := range flags {
		value, found := strings.CutPrefix(flag, "--register-with-taints=")
		if flag == "--register-with-taints" && i+1 < len(flags) {
			value, found = flags[i+1], true
		}
		if found {
			taints = append(taints, strings.Split(value, ",")...)
		}
	}
	return taints
}
