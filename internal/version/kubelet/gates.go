package kubelet

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

//go:embed gates.txt
var gateTable string

// gate is a feature gate in one minor version.
type gate struct {
	stage      string // alpha, beta, ga or deprecated
	on, locked bool
	requires   []string
}

// groupName is the ending of AllAlpha or AllBeta, which set all gates of a stage.
func (g gate) groupName() string {
	return map[string]string{"alpha": "Alpha", "beta": "Beta"}[g.stage]
}

// gates maps each minor version to its feature gates.
var gates = sync.OnceValue(func() map[int]map[string]gate {
	all := map[int]map[string]gate{}
	for line := range strings.Lines(gateTable) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, span := range words[1:] {
			var first, last int
			when, what, _ := strings.Cut(span, ":")
			if n, _ := fmt.Sscanf(when, "%d-%d", &first, &last); n < 2 {
				panic("gates.txt is damaged: " + line) // a test reads the table
			}
			parts := strings.Split(what, ":")
			g := gate{stage: parts[0], on: slices.Contains(parts, "on"), locked: slices.Contains(parts, "locked")}
			if needs, found := strings.CutPrefix(parts[len(parts)-1], "needs="); found {
				g.requires = strings.Split(needs, ",")
			}
			for minor := max(first, Oldest); minor <= min(last, Newest); minor++ {
				if all[minor] == nil {
					all[minor] = map[string]gate{}
				}
				all[minor][words[0]] = g
			}
		}
	}
	return all
})

// Gates lists the feature gates of all minor versions.
func Gates() []string {
	names := map[string]bool{}
	for _, ofMinor := range gates() {
		for name := range ofMinor {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// gateProblems reports gates that the kubelet does not have, and values that are fixed.
// It panics in the kubelet's defaults for the first kind.
func (c config) gateProblems() []Problem {
	var problems []Problem
	add := func(name, format string, args ...any) {
		problems = append(problems, Problem{Field: "featureGates." + name, Text: fmt.Sprintf(format, args...)})
	}
	set, _ := object(c.get("featureGates"))
	known := gates()[c.minor]
	for _, name := range slices.Sorted(maps.Keys(set)) {
		value, isBool := set[name].(bool)
		g, there := known[name]
		switch {
		case !isBool: // another type is reported elsewhere
		case !there:
			add(name, "the kubelet has no such feature gate and does not start")
		case g.locked && value != g.on:
			add(name, "the feature gate is fixed to %v", g.on)
		}
	}
	if len(problems) > 0 {
		return problems
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		for _, need := range known[name].requires {
			if _, there := known[need]; there && c.gate(name) && !c.gate(need) {
				blame := name
				if _, given := set[need]; given {
					blame = need
				}
				add(blame, "%s is on, which requires %s", name, need)
			}
		}
	}
	return problems
}

// Verdict is a problem and the minor versions whose kubelets have it.
type Verdict struct {
	Problem
	// Always says that no kubelet between Oldest and Newest starts.
	Always bool
}

// Verdicts is Problems for user data, whose kubelet is unknown: base returns the base
// configuration for a minor version. A problem of some minor versions names them.
func Verdicts(base func(minor int) map[string]any, user map[string]any, flags []string) []Verdict {
	minors, byField := map[Problem][]int{}, map[string]int{}
	var order []Problem
	for minor := Oldest; minor <= Newest; minor++ {
		fields := map[string]bool{}
		for _, p := range Problems(minor, base(minor), user, flags) {
			if minors[p] == nil {
				order = append(order, p)
			}
			minors[p] = append(minors[p], minor)
			fields[p.Field] = true
		}
		for field := range fields {
			byField[field]++
		}
	}
	var verdicts []Verdict
	for _, p := range order {
		v := Verdict{p, byField[p.Field] == Newest-Oldest+1}
		if len(minors[p]) <= Newest-Oldest {
			v.Text = p.Text + ": " + span(minors[p])
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// span names the kubelets of minor versions.
func span(minors []int) string {
	first, last := minors[0], minors[len(minors)-1]
	switch {
	case last-first >= len(minors):
		return "kubelets " + strings.Join(show.Each(minors, func(m int) string { return fmt.Sprintf("1.%d", m) }), ", ")
	case last == Newest:
		return fmt.Sprintf("kubelet 1.%d and newer", first)
	case first == Oldest:
		return fmt.Sprintf("kubelet 1.%d and older", last)
	case first == last:
		return fmt.Sprintf("kubelet 1.%d", first)
	}
	return fmt.Sprintf("kubelets 1.%d to 1.%d", first, last)
}

// FlagOf returns the index of the last argument that sets a field, or -1.
func FlagOf(field string, arguments []string) int {
	index := -1
	for a := range Arguments(arguments) {
		if f := a.Flag.Field; f != "" && (f == field || strings.HasPrefix(field, f+".")) {
			index = a.Index
		}
	}
	return index
}

// ClusterCA is the file with the cluster's certificate authority.
const ClusterCA = "/etc/kubernetes/pki/ca.crt"

// Defaults returns the settings that every node gets. Source: amazon-eks-ami, nodeadm,
// July 2026.
func Defaults() map[string]any {
	return map[string]any{
		"kind":       "KubeletConfiguration",
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address":    "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"cacheTTL": "2m0s", "enabled": true},
			"x509":      map[string]any{"clientCAFile": ClusterCA},
		},
		"authorization": map[string]any{
			"mode":    "Webhook",
			"webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
		},
		"cgroupRoot":            "/",
		"clusterDomain":         "cluster.local",
		"featureGates":          map[string]any{"RotateKubeletServerCertificate": true},
		"hairpinMode":           "hairpin-veth",
		"protectKernelDefaults": true,
		"readOnlyPort":          0,
		"serializeImagePulls":   false,
		"serverTLSBootstrap":    true,
		"tlsCipherSuites": []string{
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
			"TLS_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_RSA_WITH_AES_256_GCM_SHA384",
		},
	}
}

// AddOfVersion adds the feature gates and periods that EKS sets for a minor version to a
// configuration of the caller.
func AddOfVersion(config map[string]any, minor int) {
	gates := map[string]any{}
	given, _ := config["featureGates"].(map[string]any)
	maps.Copy(gates, given)
	config["featureGates"] = gates
	if minor < 28 {
		gates["KubeletCredentialProviders"] = true
	}
	if minor >= 33 {
		gates["DynamicResourceAllocation"] = true
	}
	if minor >= 34 {
		gates["MutableCSINodeAllocatableCount"] = true
		// EC2 gives a terminating instance about three minutes
		// (amazon-eks-ami #2390).
		config["shutdownGracePeriod"], config["shutdownGracePeriodCriticalPods"] = "2m30s", "30s"
	}
}

// ReserveInCgroups ties the reservations to cgroups.
func ReserveInCgroups(config map[string]any) {
	config["systemReservedCgroup"], config["kubeReservedCgroup"] = "/system", "/runtime"
}

// Base returns what first boot configures on a node of unknown size, apart from the
// user's part.
func Base(minor int) map[string]any {
	config := Defaults()
	AddOfVersion(config, minor)
	ReserveInCgroups(config)
	return config
}
