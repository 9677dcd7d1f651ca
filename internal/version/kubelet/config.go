package kubelet

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// config is a configuration with the defaults of one minor version.
type config struct {
	minor  int
	fields map[string]any
}

// defaults are the defaults that rules need. A test compares them with the verdicts.
var defaults = sync.OnceValue(func() map[string]any {
	return map[string]any{
		"cgroupsPerQOS": true, "containerLogMaxFiles": 5, "containerLogMaxWorkers": 1,
		"containerLogMonitorInterval": "10s", "cpuCFSQuotaPeriod": "100ms",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"enableSystemLogHandler":   true, "enforceNodeAllocatable": []any{"pods"}, "hairpinMode": "promiscuous-bridge",
		"imageGCHighThresholdPercent": 85, "imageGCLowThresholdPercent": 80, "imageMinimumGCAge": "2m",
		"logging": map[string]any{"format": "text", "flushFrequency": "5s"}, "nodeLeaseDurationSeconds": 40,
		"podLogsDir": "/var/log/pods", "port": 10250,
		"topologyManagerPolicy": "none", "topologyManagerScope": "container",
		"memoryReservationPolicy": "None", "shutdownGracePeriod": "0s", "shutdownGracePeriodCriticalPods": "0s",
	}
})

// zeroIsDefault lists the fields whose zero value means the default, because their Go
// type has no nil.
func zeroIsDefault() []string {
	return []string{
		"containerRuntimeEndpoint", "hairpinMode", "imageMinimumGCAge", "logging.format", "logging.flushFrequency",
		"memoryReservationPolicy", "nodeLeaseDurationSeconds", "podLogsDir", "port", "topologyManagerPolicy",
		"topologyManagerScope",
	}
}

// newConfig merges configurations like the kubelet: objects by their members, and a null
// removes. The kubelet sets defaults after each of them, but not after its flags.
func newConfig(minor int, base, user, flags map[string]any) config {
	c := config{minor, defaults()}
	for _, one := range []map[string]any{base, user} {
		c.fields = merge(c.fields, one)
		c.setDefaults()
	}
	c.fields = merge(c.fields, flags)
	return c
}

func (c config) setDefaults() {
	for _, field := range zeroIsDefault() {
		value := c.get(field)
		zero := value == "" || isZeroDuration(value)
		if number, ok := integer(value); ok && number == 0 {
			zero = true
		}
		if zero {
			c.set(field, config{fields: defaults()}.get(field))
		}
	}
	if c.gate("KubeletCrashLoopBackOffMax") && c.get(restartPeriod) == nil {
		c.set(restartPeriod, "5m")
	}
	if policy := c.get(pullPolicy); c.gate("KubeletEnsureSecretPulledImages") && (policy == nil || policy == "") {
		c.set(pullPolicy, "NeverVerifyPreloadedImages")
	}
}

// The fields whose defaults depend on feature gates.
const (
	restartPeriod = "crashLoopBackOff.maxContainerRestartPeriod"
	pullPolicy    = "imagePullCredentialsVerificationPolicy"
)

func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range b {
		if value == nil {
			delete(out, name)
			if standard, there := defaults()[name]; there {
				out[name] = standard
			}
			continue
		}
		from, isObject := object(out[name])
		if to, ok := object(value); ok && isObject {
			value = merge(from, to)
		}
		out[name] = value
	}
	return out
}

// object reads objects of each type that the decoders make.
func object(value any) (map[string]any, bool) {
	switch v := value.(type) {
	case map[string]any:
		return v, true
	case map[string]bool, map[string]string:
		text, _ := json.Marshal(v) // cannot fail
		out := map[string]any{}
		return out, json.Unmarshal(text, &out) == nil
	}
	return nil, false
}

func isZeroDuration(value any) bool {
	text, _ := value.(string)
	d, err := time.ParseDuration(text)
	return err == nil && d == 0
}

// get returns the value at a path such as memorySwap.swapBehavior, or nil.
func (c config) get(path string) any {
	name, rest, more := strings.Cut(path, ".")
	value := c.fields[name]
	if !more {
		return value
	}
	inner, _ := object(value)
	return config{fields: inner}.get(rest)
}

func (c config) set(path string, value any) {
	name, rest, more := strings.Cut(path, ".")
	if !more {
		c.fields[name] = value
		return
	}
	inner, _ := object(c.fields[name])
	inner = merge(nil, inner)
	config{fields: inner}.set(rest, value)
	c.fields[name] = inner
}

func (c config) text(path string) string {
	text, _ := c.get(path).(string)
	return text
}

func (c config) on(path string) bool { return c.get(path) == true }

func (c config) list(path string) []string {
	switch v := c.get(path).(type) {
	case []string:
		return v
	case []any:
		var out []string
		for _, one := range v {
			if text, ok := one.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

// integer reads integers of each type that the decoders make.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int:
		return int64(v), true
	case int64:
		return v, true
	case uint64:
		return int64(v), int64(v) >= 0
	case float64:
		return int64(v), v == float64(int64(v))
	case json.Number:
		n, err := strconv.ParseInt(string(v), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// number returns a number, which a duration is in nanoseconds. ok is false where the
// field is not set or has another type, which the caller reports.
func (c config) number(path string) (n float64, ok bool) {
	switch v := c.get(path).(type) {
	case string:
		d, err := time.ParseDuration(v)
		return float64(d), err == nil
	case float64:
		return v, true
	default:
		n, ok := integer(v)
		return float64(n), ok
	}
}

func (c config) gate(name string) bool {
	set, _ := object(c.get("featureGates"))
	if value, there := set[name].(bool); there {
		return value
	}
	g, known := gates()[c.minor][name]
	if value, there := set["All"+g.groupName()].(bool); there && known && !strings.HasPrefix(name, "All") {
		return value
	}
	return g.on
}

// fieldsSet lists the names that a configuration sets, as paths of one or two names.
func fieldsSet(user map[string]any) []string {
	var names []string
	for name, value := range user {
		names = append(names, name)
		inner, _ := object(value)
		for n := range inner {
			names = append(names, name+"."+n)
		}
	}
	slices.Sort(names)
	return names
}
