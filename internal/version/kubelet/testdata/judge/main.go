// Judge starts as a kubelet does: it reads flags, the configuration and the user's drop-in, sets defaults and
// validates. It prints what the kubelet of its version knows and says.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	metrics "k8s.io/component-base/metrics/features"
	versioned "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	_ "k8s.io/kubernetes/pkg/features"
	internal "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
)

type start struct {
	Base, DropIn json.RawMessage
	Flags        []string
}

type gate struct {
	Default  bool     `json:"default"`
	Stage    string   `json:"stage"`
	Locked   bool     `json:"locked,omitempty"`
	Requires []string `json:"requires,omitempty"`
}

type flag struct {
	Type string `json:"type"`
	// Bare is the value of the flag without one.
	Bare string `json:"bare,omitempty"`
	// Field is the field of the configuration that the flag sets.
	Field string `json:"field,omitempty"`
}

func main() {
	must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	must(metrics.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	pristine := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	var starts []start
	must(json.NewDecoder(os.Stdin).Decode(&starts))
	defaults := &versioned.KubeletConfiguration{}
	conversion.SetDefaults_KubeletConfiguration(defaults)
	out := struct {
		Gates    map[string]gate `json:"gates"`
		Flags    map[string]flag `json:"flags"`
		Defaults any             `json:"defaults"`
		Verdicts [][]string      `json:"verdicts"`
	}{gates(), flags(), defaults, [][]string{}}
	for _, s := range starts {
		utilfeature.DefaultMutableFeatureGate = pristine.DeepCopy()
		out.Verdicts = append(out.Verdicts, s.judge())
	}
	text, err := json.Marshal(out)
	must(err)
	_, err = os.Stdout.Write(text)
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// judge returns why the kubelet ends, which is nothing where it starts.
func (s start) judge() (said []string) {
	defer func() {
		if p := recover(); p != nil {
			said = []string{"panic: " + fmt.Sprint(p)}
		}
	}()
	if err := s.run(); err != nil {
		if all, ok := err.(utilerrors.Aggregate); ok {
			for _, e := range all.Errors() {
				said = append(said, e.Error())
			}
			return said
		}
		return []string{err.Error()}
	}
	return []string{}
}

func (s start) run() error {
	given := options.NewKubeletFlags()
	config, err := options.NewKubeletConfiguration()
	must(err)
	fs := flagSet(given, config)
	if err := fs.Parse(s.Flags); err != nil {
		return fmt.Errorf("failed to parse kubelet flag: %w", err)
	}
	if words := fs.Args(); len(words) > 0 {
		return fmt.Errorf("unknown command %s", words[0])
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return err
	}
	if err := options.ValidateKubeletFlags(given); err != nil {
		return err
	}
	if config, err = s.load(); err != nil {
		return err
	}
	original := config.FeatureGates
	if err := flagSet(options.NewKubeletFlags(), config).Parse(s.Flags); err != nil {
		return err
	}
	for k, v := range original {
		if _, ok := config.FeatureGates[k]; !ok {
			config.FeatureGates[k] = v
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(config.FeatureGates); err != nil {
		return err
	}
	// The verdict must not depend on the cgroups of the machine that judges.
	config.FailCgroupV1 = false
	if v := reflect.ValueOf(config).Elem().FieldByName("SingleProcessOOMKill"); v.IsValid() {
		v.SetZero()
	}
	return validation.ValidateKubeletConfiguration(config, utilfeature.DefaultMutableFeatureGate)
}

func (s start) load() (*internal.KubeletConfiguration, error) {
	base := &versioned.KubeletConfiguration{}
	if err := json.Unmarshal(s.Base, base); err != nil {
		return nil, err
	}
	conversion.SetDefaults_KubeletConfiguration(base)
	if len(s.DropIn) > 0 {
		text, err := json.Marshal(base)
		must(err)
		merged, err := jsonpatch.MergePatch(text, s.DropIn)
		if err != nil {
			return nil, err
		}
		base = &versioned.KubeletConfiguration{}
		if err := json.Unmarshal(merged, base); err != nil {
			return nil, err
		}
		conversion.SetDefaults_KubeletConfiguration(base)
	}
	config := &internal.KubeletConfiguration{}
	return config, conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(base, config, nil)
}

func flagSet(given *options.KubeletFlags, config *internal.KubeletConfiguration) *pflag.FlagSet {
	fs := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.SetOutput(discard{})
	given.AddFlags(fs)
	options.AddKubeletConfigFlags(fs, config)
	options.AddGlobalFlags(fs)
	fs.BoolP("help", "h", false, "")
	return fs
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func gates() map[string]gate {
	all := map[string]gate{}
	requires := map[featuregate.Feature][]featuregate.Feature{}
	if d, ok := utilfeature.DefaultMutableFeatureGate.(interface {
		Dependencies() map[featuregate.Feature][]featuregate.Feature
	}); ok {
		requires = d.Dependencies()
	}
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		g := gate{Default: spec.Default, Stage: string(spec.PreRelease), Locked: spec.LockToDefault}
		for _, r := range requires[name] {
			g.Requires = append(g.Requires, string(r))
		}
		slices.Sort(g.Requires)
		all[string(name)] = g
	}
	return all
}

func flags() map[string]flag {
	all := map[string]flag{}
	flagSet(options.NewKubeletFlags(), &internal.KubeletConfiguration{}).VisitAll(func(f *pflag.Flag) {
		all[f.Name] = flag{Type: f.Value.Type(), Bare: f.NoOptDefVal, Field: field(f.Name)}
	})
	return all
}

// field finds the field that a flag sets by setting it.
func field(name string) string {
	for _, value := range []string{"true", "false", "7", "7s", "a=b", "a=7", "cpu=7", "memory.available<7", "AllAlpha=true", "a=b:NoSchedule", "1.2.3.4", "x", "0:memory=7Mi"} {
		config, err := options.NewKubeletConfiguration()
		must(err)
		before := fields(config)
		fs := flagSet(options.NewKubeletFlags(), config)
		if fs.Set(name, value) != nil {
			continue
		}
		after := fields(config)
		for _, key := range slices.Sorted(maps.Keys(after)) {
			if after[key] != before[key] {
				return strings.TrimPrefix(key, ".")
			}
		}
	}
	return ""
}

func fields(config *internal.KubeletConfiguration) map[string]string {
	v := &versioned.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(config, v, nil); err != nil {
		return nil
	}
	text, err := json.Marshal(v)
	must(err)
	var tree map[string]any
	must(json.Unmarshal(text, &tree))
	all := map[string]string{}
	flatten("", tree, all, 0)
	return all
}

// flatten lists the fields; what a user names in a map is part of the value.
func flatten(path string, value any, all map[string]string, depth int) {
	if m, ok := value.(map[string]any); ok && slices.Contains([]string{"", ".authentication", ".authentication.anonymous", ".authentication.webhook", ".authentication.x509", ".authorization", ".authorization.webhook", ".logging", ".logging.options", ".logging.options.text", ".logging.options.json"}, path) {
		for k, v := range m {
			flatten(path+"."+k, v, all, depth+1)
		}
		return
	}
	text, err := json.Marshal(value)
	must(err)
	all[path] = string(text)
}
