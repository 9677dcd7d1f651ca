package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// choices are the fields of KubeletConfiguration that take one of some values, and that
// the kubelet checks after its validation (k8s.io/kubelet/config/v1beta1).
var choices = map[string][]string{
	"apiVersion":          {"kubelet.config.k8s.io/v1beta1"},
	"kind":                {"KubeletConfiguration"},
	"cgroupDriver":        {"systemd", "cgroupfs"},
	"cpuManagerPolicy":    {"none", "static"},
	"memoryManagerPolicy": {"None", "Static", "BestEffort"},
}

// Eviction signals (pkg/kubelet/eviction/api), and resources that can be reserved.
var (
	signals = []string{
		"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
		"containerfs.available", "containerfs.inodesFree", "allocatableMemory.available", "pid.available",
	}
	resources = []string{"cpu", "memory", "ephemeral-storage", "pid"}
)

// memberForm describes the members of an object, whose values are texts.
type memberForm struct {
	unknown string // the words for an unknown member
	known   []string
	wrong   func(value string) string
}

var memberForms = map[string]memberForm{
	"evictionHard":            {"unknown eviction signal", signals, thresholdProblem},
	"evictionSoft":            {"unknown eviction signal", signals, thresholdProblem},
	"evictionMinimumReclaim":  {"unknown eviction signal", signals, thresholdProblem},
	"evictionSoftGracePeriod": {"unknown eviction signal", signals, Flag{Type: "duration"}.Problem},
	"kubeReserved":            {"nothing is reserved of", resources, reservationProblem},
	"systemReserved":          {"nothing is reserved of", resources, reservationProblem},
}

// MemberProblem says why the kubelet refuses a member of an object such as evictionHard,
// or nothing. It panics for a field without such members.
func MemberProblem(field, name, value string) string {
	form := memberForms[field]
	if !slices.Contains(form.known, name) {
		return fmt.Sprintf("%s %q; %s", form.unknown, name, show.Suggest(name, form.known))
	}
	return form.wrong(value)
}

// ValueProblems is Problem, but says what is wrong with each member of an object.
func (f Flag) ValueProblems(value string) []string {
	var problems []string
	add := func(said string) {
		if said != "" {
			problems = append(problems, said)
		}
	}
	if _, there := memberForms[f.Field]; !there {
		add(f.Problem(value))
		return problems
	}
	for pair := range strings.SplitSeq(value, ",") { // such as a=b,c=d
		name, member, found := strings.Cut(pair, f.Between())
		switch {
		case pair == "":
		case !found:
			add(fmt.Sprintf("%q must be name%svalue", pair, f.Between()))
		default:
			add(MemberProblem(f.Field, strings.TrimSpace(name), strings.TrimSpace(member)))
		}
	}
	return problems
}

// valueProblems returns the values of the right type with which the kubelet does not
// start, and which its validation does not know.
func valueProblems(config map[string]any) []Problem {
	var problems []Problem
	add := func(field, said string) {
		if said != "" {
			problems = append(problems, Problem{Field: field, Text: said})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(config)) {
		value, _ := config[field].(string)
		if known := choices[field]; value != "" && known != nil && !slices.Contains(known, value) {
			add(field, fmt.Sprintf("unknown value %q; %s", value, show.Suggest(value, known)))
		}
		if _, there := memberForms[field]; !there {
			continue
		}
		members, _ := config[field].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if text, isText := members[name].(string); isText {
				add(field+"."+name, MemberProblem(field, name, text))
			}
		}
	}
	for i, text := range Taints(config) {
		if _, err := ParseTaint(text); err != nil {
			add(fmt.Sprintf("registerWithTaints[%d]", i), err.Error())
		}
	}
	return problems
}

// LabelName and LabelValue are the forms of labels, and of the keys and values of taints.
var (
	LabelName  = show.Regexp(`^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	LabelValue = show.Regexp(`^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$`)
)

// Taint is one taint taken apart.
type Taint struct{ Key, Value, Effect string }

var taintForm = show.Regexp(`^([^=:]+)(?:=([^:]*))?:(NoSchedule|PreferNoSchedule|NoExecute)$`)

// ParseTaint reads a taint in kubectl's form. The error names that form.
func ParseTaint(text string) (Taint, error) {
	parts := taintForm().FindStringSubmatch(text)
	if parts == nil || !LabelName().MatchString(parts[1]) || !LabelValue().MatchString(parts[2]) {
		return Taint{}, fmt.Errorf("%q must be key=value:Effect or key:Effect, "+
			"with NoSchedule, PreferNoSchedule or NoExecute", text)
	}
	return Taint{parts[1], parts[2], parts[3]}, nil
}

// Taints returns the taints of a configuration in kubectl's form. It skips what is no object.
func Taints(config map[string]any) []string {
	list, _ := config["registerWithTaints"].([]any)
	var taints []string
	for _, entry := range list {
		t, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		get := func(name string) string {
			if t[name] == nil {
				return ""
			}
			return fmt.Sprint(t[name])
		}
		text := get("key")
		if value := get("value"); value != "" {
			text += "=" + value
		}
		taints = append(taints, text+":"+get("effect"))
	}
	return taints
}

var percentage = show.Regexp(`^[0-9]+(\.[0-9]+)?%$`)

// thresholdProblem says what is wrong with a threshold such as 10% or 100Mi.
func thresholdProblem(value string) string {
	if !percentage().MatchString(value) {
		return quantityProblem(value, "a percentage such as 10% or a quantity such as 100Mi")
	}
	if percent, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err == nil && percent > 100 {
		return fmt.Sprintf("%q must be from 0%% to 100%%", value)
	}
	return ""
}

func reservationProblem(value string) string {
	return quantityProblem(value, "a quantity such as 100m or 512Mi")
}

func quantityProblem(value, form string) string {
	if !quantityForm().MatchString(value) || strings.HasPrefix(value, "-") {
		return fmt.Sprintf("%q must be %s", value, form)
	}
	return ""
}
