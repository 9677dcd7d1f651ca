package userdata

import (
	"slices"
	"strconv"
	"strings"
)

// kubeletFlagValues checks the kubelet's flags that user data mostly has. The
// kubelet ends at once when one of them is wrong.
func (c *checker) kubeletFlagValues(line int, field string, flags []string) {
	for i, flag := range flags {
		name, value, attached := strings.Cut(flag, "=")
		if !attached && i+1 < len(flags) {
			value = flags[i+1]
		}
		if strings.ContainsAny(value, "$`") { // what only a shell knows
			continue
		}
		for _, said := range flagProblems(name, value) {
			c.fail(line, field, "%s: %s", name, said)
		}
	}
}

// flagProblems says what is wrong with the value of one flag.
func flagProblems(name, value string) []string {
	var said []string
	switch name {
	case "--node-labels":
		for pair := range strings.SplitSeq(value, ",") {
			key, v, found := strings.Cut(pair, "=")
			switch {
			case pair == "":
			case !found:
				said = append(said, strconv.Quote(pair)+" must be key=value")
			default:
				said = append(said, labelProblems(key, v)...)
			}
		}
	case "--register-with-taints":
		for t := range strings.SplitSeq(value, ",") {
			if _, err := parseTaint(t); err != nil && t != "" {
				said = append(said, err.Error())
			}
		}
	case "--max-pods":
		if n, err := strconv.Atoi(value); err != nil || n < 1 {
			said = append(said, strconv.Quote(value)+" must be a number")
		}
	}
	return said
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
