package kubelet

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/kubelet/config/v1beta1"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// typed lists the fields of a type of Kubernetes as in fields.txt, without minor versions.
func typed(path string, t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own {
		kind := map[string]string{"Quantity": "quantity", "Duration": "duration"}[t.Name()]
		return []string{path + " " + cmp.Or(kind, "text")}
	}
	switch t.Kind() {
	case reflect.Struct:
		var list []string
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "" && f.Anonymous:
				list = append(list, typed(path, f.Type)...)
			case name != "" && name != "-":
				list = append(list, typed(strings.TrimPrefix(path+"."+name, "."), f.Type)...)
			}
		}
		return list
	case reflect.Map:
		return typed(path+".*", t.Elem())
	case reflect.Slice:
		return typed(path+"[]", t.Elem())
	case reflect.Bool:
		return []string{path + " bool"}
	case reflect.String:
		return []string{path + " string"}
	case reflect.Float32, reflect.Float64:
		return []string{path + " number"}
	default:
		return []string{path + " " + t.Kind().String()}
	}
}

// The types of this repository's k8s.io/kubelet are those of kubelet 1.36.
func TestFieldsAreThoseOfTheKubeletsTypes(t *testing.T) {
	var known []string
	for line := range strings.Lines(fieldLines) {
		words := strings.Fields(line)
		if len(words) == 3 && words[2] > "36" {
			continue
		}
		known = append(known, words[0]+" "+words[1])
	}
	want := typed("", reflect.TypeFor[v1beta1.KubeletConfiguration]())
	slices.Sort(want)
	slices.Sort(known)
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(known, "\n"))
}

func TestFieldProblems(t *testing.T) {
	for text, want := range map[string][]string{
		`{"maxPods": 110, "containerLogMaxSize": "50Mi", "evictionHard": {"memory.available": "5%"}, "clusterDNS": ["1.2.3.4"],
			"featureGates": {"NodeSwap": true}, "logging": {"verbosity": 3}, "serializeImagePulls": null,
			"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}`: nil,
		`{"maxPod": 110}`:    {"maxPod: unknown field of the kubelet, which ignores it; did you mean maxPods?"},
		`{"maxPods": "110"}`: {`maxPods: must be an integer of 32 bits, not the text "110"`},
		`{"maxPods": 1.5}`:   {`maxPods: must be an integer of 32 bits, not "1.5"`},
		`{"logging": 1}`:     {"logging: must be an object, not a number"},
		`{"logging": {"level": 1}}`: {"logging.level: unknown field of the kubelet, which ignores it; " +
			"see the fields of KubeletConfiguration in kubelet.config.k8s.io/v1beta1"},
		`{"clusterDNS": "1.2.3.4"}`:            {"clusterDNS: must be a list, not text"},
		`{"clusterDNS": [1]}`:                  {`clusterDNS[0]: must be text in quotes, not "1"`},
		`{"evictionHard": {"x": 1}}`:           {`evictionHard.x: must be text in quotes, not "1"`},
		`{"featureGates": {"NodeSwap": "on"}}`: {`featureGates.NodeSwap: must be true or false, not the text "on"`},
		`{"port": 99999999999}`:                {`port: must be an integer of 32 bits, not "9.9999999999e+10"`},
		`{"imageMinimumGCAge": "30"}`:          {`imageMinimumGCAge: must be a duration in quotes, such as 30s or 5m, not the text "30"`},
		`{"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1GB"}}]}`: {
			`reservedMemory[0].limits.memory: must be a quantity such as 100m or 512Mi, not the text "1GB"`},
		`{"podLogsDir": "/x"}`:              {"podLogsDir: kubelets before 1.30 do not have this field"},
		`{"reservedMemory": [{"node": 0}]}`: {"reservedMemory[0].node: unknown field of the kubelet, which ignores it; did you mean numaNode?"},
	} {
		config := testkit.JSON[map[string]any](t, text)
		var said []string
		for _, p := range FieldProblems(29, config) {
			said = append(said, p.Field+": "+p.Text)
		}
		assert.Equal(t, want, said, text)
	}
}
