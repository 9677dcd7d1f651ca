package userdata

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// kubeletConfig checks a KubeletConfiguration against the kubelet's own type.
func (c *checker) kubeletConfig(path string, n *yaml.Node) {
	k := kubeletChecker{c, path}
	k.value(path, n, reflect.TypeFor[v1beta1.KubeletConfiguration](), 0)
	if version := strictjson.Child(n, "apiVersion"); version != nil &&
		version.Value != v1beta1.SchemeGroupVersion.String() {
		c.fail(version.Line, path+".apiVersion", "%q is not %s", version.Value, v1beta1.SchemeGroupVersion)
	}
	if kind := strictjson.Child(n, "kind"); kind != nil && kind.Value != "KubeletConfiguration" {
		c.fail(kind.Line, path+".kind", "%q is not KubeletConfiguration", kind.Value)
	}
	k.meanings(n)
}

type kubeletChecker struct {
	*checker
	path string
}

// value checks that a kind of YAML is what a Go type takes.
func (k kubeletChecker) value(path string, n *yaml.Node, t reflect.Type, depth int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if depth > 50 || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own {
		k.scalar(path, n, t)
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		if k.is(path, n, yaml.MappingNode, "an object") {
			k.object(path, n, t, depth)
		}
	case reflect.Map:
		if k.is(path, n, yaml.MappingNode, "an object") {
			for i := 0; i+1 < len(n.Content); i += 2 {
				k.value(path+"."+n.Content[i].Value, n.Content[i+1], t.Elem(), depth+1)
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			k.scalar(path, n, t)
		} else if k.is(path, n, yaml.SequenceNode, "a list") {
			for i, element := range n.Content {
				k.value(fmt.Sprintf("%s[%d]", path, i), element, t.Elem(), depth+1)
			}
		}
	case reflect.Interface:
	default:
		k.scalar(path, n, t)
	}
}

func (k kubeletChecker) object(path string, n *yaml.Node, t reflect.Type, depth int) {
	fields := map[string]reflect.Type{}
	kubeletFields(t, fields)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		at := path + "." + nodeconfig.Printable(name)
		field, known := fields[name]
		switch {
		case n.Content[i].Tag == "!!merge":
			k.value(path, n.Content[i+1], t, depth+1)
		case known:
			k.value(at, n.Content[i+1], field, depth+1)
		default:
			k.warn(n.Content[i].Line, at, "unknown field of the kubelet, which ignores it; %s", nearestOnly(name, sortedNames(fields)))
		}
	}
}

// kubeletFields are the fields of a struct of Kubernetes by their names in JSON.
func kubeletFields(t reflect.Type, into map[string]reflect.Type) {
	for field := range t.Fields() {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && (strings.Contains(options, "inline") || field.Anonymous):
			kubeletFields(field.Type, into)
		case name != "" && name != "-":
			into[name] = field.Type
		}
	}
}

// is reports a value of another kind.
func (k kubeletChecker) is(path string, n *yaml.Node, kind yaml.Kind, want string) bool {
	if n.Kind != kind {
		k.fail(n.Line, path, "must be %s, not %s", want, strictjson.Kind(n))
	}
	return n.Kind == kind
}

// scalar checks a value as the kubelet's JSON decoder does.
func (k kubeletChecker) scalar(path string, n *yaml.Node, t reflect.Type) {
	if n.Kind != yaml.ScalarNode { // may hold aliases that take long to follow
		k.fail(n.Line, path, "%s", wrongValue(n, t))
		return
	}
	var value any
	if err := n.Decode(&value); err != nil {
		k.fail(n.Line, path, "%v", err)
		return
	}
	if f, ok := value.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
		k.fail(n.Line, path, "must be a finite number")
		return
	}
	if b, ok := strictjson.Boolean(n); ok {
		value = b
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		k.fail(n.Line, path, "%s", wrongValue(n, t))
	}
}

// wrongValue says which value a type takes.
func wrongValue(n *yaml.Node, t reflect.Type) string {
	shown := strictjson.Kind(n)
	if n.Kind == yaml.ScalarNode {
		shown = strconv.Quote(nodeconfig.Printable(n.Value))
		if n.ShortTag() == "!!str" {
			shown = "the text " + shown
		}
	}
	want := map[reflect.Kind]string{
		reflect.Bool: "true or false", reflect.String: "text in quotes", reflect.Float64: "a number", reflect.Float32: "a number",
	}[t.Kind()]
	switch {
	case t.Name() == "Duration":
		want = "a duration in quotes, such as 30s or 5m"
	case t.Name() == "Quantity":
		want = "a quantity such as 100m or 512Mi"
	case want == "" && t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		want = fmt.Sprintf("an integer of %d bits", t.Bits())
	case want == "":
		want = "a value of type " + t.Name()
	}
	return "must be " + want + ", not " + shown
}

// kubeletChoices are the fields that take one of some values
// (k8s.io/kubelet/config/v1beta1 and the kubelet's validation).
func kubeletChoices() map[string][]string {
	return map[string][]string{
		"cgroupDriver": {"systemd", "cgroupfs"}, "cpuManagerPolicy": {"none", "static"},
		"memoryManagerPolicy": {"None", "Static", "BestEffort"},
	}
}

// meanings checks values that the type takes and the kubelet refuses.
func (k kubeletChecker) meanings(n *yaml.Node) {
	for field, choices := range kubeletChoices() {
		if v := strictjson.Child(n, field); v != nil && v.Value != "" && !slices.Contains(choices, v.Value) {
			k.fail(v.Line, k.path+"."+field, "unknown value %q; %s", v.Value, show.Suggest(v.Value, choices))
		}
	}
	k.each(n, "evictionHard", evictionProblem)
	k.each(n, "evictionSoft", evictionProblem)
	k.each(n, "evictionMinimumReclaim", evictionProblem)
	k.each(n, "evictionSoftGracePeriod", gracePeriodProblem)
	k.each(n, "kubeReserved", reservedProblem)
	k.each(n, "systemReserved", reservedProblem)
	if taints := strictjson.Child(n, "registerWithTaints"); taints != nil && taints.Kind == yaml.SequenceNode {
		for i, t := range taints.Content {
			k.taint(fmt.Sprintf("%s.registerWithTaints[%d]", k.path, i), t)
		}
	}
}

func (k kubeletChecker) taint(path string, n *yaml.Node) {
	get := func(name string) string {
		if v := strictjson.Child(n, name); v != nil {
			return v.Value
		}
		return ""
	}
	text := get("key") + ":" + get("effect")
	if value := get("value"); value != "" {
		text = get("key") + "=" + value + ":" + get("effect")
	}
	if _, err := parseTaint(text); err != nil && n.Kind == yaml.MappingNode {
		k.fail(n.Line, path, "%v", err)
	}
}

// each checks the members of an object of the configuration.
func (k kubeletChecker) each(n *yaml.Node, field string, wrong func(name, value string) string) {
	object := strictjson.Child(n, field)
	if object == nil || object.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(object.Content); i += 2 {
		name, value := object.Content[i], object.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			continue // has been reported
		}
		if said := wrong(name.Value, value.Value); said != "" {
			k.fail(value.Line, k.path+"."+field+"."+name.Value, "%s", said)
		}
	}
}

var percentage = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+(\.[0-9]+)?%$`) })

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

// nearestOnly says which known name is probably meant; the kubelet has too many
// fields to list.
func nearestOnly(name string, known []string) string {
	if best := show.Nearest(name, known); best != "" {
		return "did you mean " + best + "?"
	}
	return "see the fields of KubeletConfiguration in kubelet.config.k8s.io/v1beta1"
}
