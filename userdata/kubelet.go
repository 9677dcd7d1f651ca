package userdata

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/version/kubelet"
)

// kubeletConfig checks a KubeletConfiguration, which is config in Go and n in the text.
func (c *checker) kubeletConfig(path string, n *yaml.Node, config map[string]any) {
	report := func(warning bool, field, said string) {
		line, _ := lineOf(n, field)
		c.either(warning, line, path+"."+field, said)
	}
	for _, p := range kubelet.FieldProblems(math.MaxInt, config) {
		report(p.Unknown, p.Field, p.Text)
	}
	choices := kubeletChoices()
	for _, field := range sortedNames(choices) {
		if v, _ := config[field].(string); v != "" && !slices.Contains(choices[field], v) {
			report(false, field, fmt.Sprintf("unknown value %q; %s", v, show.Suggest(v, choices[field])))
		}
	}
	memberProblems := map[string]func(name, value string) string{
		"evictionHard": evictionProblem, "evictionSoft": evictionProblem, "evictionMinimumReclaim": evictionProblem,
		"evictionSoftGracePeriod": gracePeriodProblem, "kubeReserved": reservedProblem, "systemReserved": reservedProblem,
	}
	for _, field := range sortedNames(memberProblems) {
		members, _ := config[field].(map[string]any)
		for _, name := range sortedNames(members) {
			text, ok := members[name].(string) // others have been reported
			if said := memberProblems[field](name, text); ok && said != "" {
				report(false, field+"."+name, said)
			}
		}
	}
	for i, text := range taintsOfConfig(config) {
		if _, err := parseTaint(text); err != nil {
			report(false, fmt.Sprintf("registerWithTaints[%d]", i), err.Error())
		}
	}
}

// kubeletChoices are the fields that take one of some values
// (k8s.io/kubelet/config/v1beta1 and the kubelet's validation).
func kubeletChoices() map[string][]string {
	return map[string][]string{
		"apiVersion": {v1beta1.SchemeGroupVersion.String()}, "kind": {"KubeletConfiguration"},
		"cgroupDriver": {"systemd", "cgroupfs"}, "cpuManagerPolicy": {"none", "static"},
		"memoryManagerPolicy": {"None", "Static", "BestEffort"},
	}
}

var percentage = show.Regexp(`^[0-9]+(\.[0-9]+)?%$`)

// evictionSignals are what the kubelet observes (pkg/kubelet/eviction/api).
func evictionSignals() []string {
	return []string{
		"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available",
	}
}

// evictionProblem says what is wrong with a threshold such as 10% or 100Mi.
func evictionProblem(signal, value string) string {
	if !slices.Contains(evictionSignals(), signal) {
		return fmt.Sprintf("unknown eviction signal %q; %s", signal, show.Suggest(signal, evictionSignals()))
	}
	if percentage().MatchString(value) {
		if percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err == nil && percent > 100 {
			return fmt.Sprintf("%q must be from 0%% to 100%%", value)
		}
		return ""
	}
	if quantity, err := resource.ParseQuantity(value); err != nil || quantity.Sign() < 0 {
		return fmt.Sprintf("%q must be a percentage such as 10%% or a quantity such as 100Mi", value)
	}
	return ""
}

func gracePeriodProblem(signal, value string) string {
	if !slices.Contains(evictionSignals(), signal) {
		return fmt.Sprintf("unknown eviction signal %q; %s", signal, show.Suggest(signal, evictionSignals()))
	}
	return durationProblem(value)
}

// reservedProblem says what is wrong with a reservation.
func reservedProblem(name, value string) string {
	known := []string{"cpu", "memory", "ephemeral-storage", "pid"}
	if !slices.Contains(known, name) {
		return fmt.Sprintf("nothing is reserved of %q; %s", name, show.Suggest(name, known))
	}
	if quantity, err := resource.ParseQuantity(value); err != nil || quantity.Sign() < 0 {
		return fmt.Sprintf("%q must be a quantity such as 100m or 512Mi", value)
	}
	return ""
}
