package kubelet

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// Problem is a reason why the kubelet ends when it starts.
type Problem struct {
	// Field is the path of a setting of KubeletConfiguration, or a flag with its dashes.
	Field string
	Text  string
	// Flag says that the argument itself is wrong, not the configuration.
	Flag bool
	// Unknown says that the kubelet ignores the field.
	Unknown bool
}

// rule is a condition of the kubelet's validation.
type rule struct {
	// fields are those that the condition connects. The problem is reported at the
	// first that the user sets.
	fields []string
	// since is the first minor version with the condition; 0 has no bound.
	since int
	// wrong says what is wrong, or nothing.
	wrong func(config) string
}

// rules are those of pkg/kubelet/apis/config/validation of k8s.io/kubernetes, and one of
// pkg/kubelet/eviction.
var rules = sync.OnceValue(func() []rule {
	return slices.Concat(fieldRules(), pairRules(), []rule{
		{fields: []string{"runOnce"}, wrong: when(isOn("runOnce"), "the kubelet no longer has this mode")},
		{fields: []string{"podLogsDir"}, wrong: podLogsDir},
		{fields: []string{"reservedSystemCPUs"}, wrong: cpuSet},
		{fields: []string{"enforceNodeAllocatable"}, wrong: enforcement},
		{fields: []string{softEviction, softPeriods}, wrong: withoutPeriod},
		{fields: []string{"userNamespaces.idsPerPod"}, since: 33, wrong: idsPerPod},
		{fields: []string{"tracing.endpoint"}, wrong: tracingEndpoint},
	})
})

//go:embed rules.txt
var ruleTable string

// fieldRules are those of rules.txt.
func fieldRules() []rule {
	var all []rule
	for line := range strings.Lines(ruleTable) {
		words := strings.Fields(line)
		if words[0] == "#" {
			continue
		}
		r := newRule(words[0], words[2], words[3:])
		r.since, _ = strconv.Atoi(words[1]) // a test reads the lines
		all = append(all, r)
	}
	return all
}

func newRule(field, kind string, words []string) rule {
	switch kind {
	case "from":
		high, gate := math.Inf(1), ""
		if len(words) > 2 {
			high, _ = numeric(words[2])
		}
		if len(words) > 4 {
			gate = words[4]
		}
		low, _ := numeric(words[0])
		return between(field, low, high, gate)
	case "oneof":
		return oneOf(field, words)
	}
	return needs(field, words[0], words[1], words[2])
}

// numeric reads a number or a duration.
func numeric(text string) (n float64, isDuration bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, false
	}
	d, err := time.ParseDuration(text)
	return float64(d), err == nil
}

// between bounds numbers and durations, with a gate only where it is on.
func between(field string, low, high float64, gate string) rule {
	return rule{fields: []string{field}, wrong: func(c config) string {
		n, ok := c.number(field)
		_, isDuration := c.get(field).(string)
		show := func(f float64) string {
			if isDuration {
				return time.Duration(f).String()
			}
			return fmt.Sprintf("%v", f)
		}
		switch {
		case !ok || low <= n && n <= high || gate != "" && !c.gate(gate):
			return ""
		case math.IsInf(high, 1):
			return fmt.Sprintf("%v must be at least %s", c.get(field), show(low))
		}
		return fmt.Sprintf("%v must be from %s to %s", c.get(field), show(low), show(high))
	}}
}

// oneOf bounds a text to choices.
func oneOf(field string, choices []string) rule {
	return rule{fields: []string{field}, wrong: func(c config) string {
		value, isText := c.get(field).(string)
		if !isText || slices.Contains(choices, value) || value == "" && slices.Contains(choices, `""`) {
			return ""
		}
		known := strings.TrimPrefix(strings.Join(choices, ", "), `"", `)
		return fmt.Sprintf("unknown value %q; known are %s", value, known)
	}}
}

// needs demands a feature gate for a value of a field, or for all values but one.
func needs(field, gate, relation, value string) rule {
	return rule{fields: []string{field, "featureGates." + gate}, wrong: func(c config) string {
		if c.gate(gate) || (relation == "for") != c.has(field, value) || c.get(field) == nil || c.get(field) == "" {
			return ""
		}
		return field + " needs the feature gate " + gate
	}}
}

// has says whether a field has a value. Where the value is a duration, so does what is none.
func (c config) has(field, value string) bool {
	want, isDuration := numeric(value)
	if n, ok := c.number(field); ok && value != `""` {
		return n == want
	}
	return isDuration || fmt.Sprint(c.get(field)) == value
}

func isOn(field string) func(config) bool { return func(c config) bool { return c.on(field) } }

func isMore(field string, than float64) func(config) bool {
	return func(c config) bool {
		n, ok := c.number(field)
		return ok && n > than
	}
}

// when reports a text where a condition holds.
func when(condition func(config) bool, text string) func(config) string {
	return func(c config) string {
		if condition(c) {
			return text
		}
		return ""
	}
}

// compared reports two settings where the first is not less than the second; equal says
// whether they may be equal.
func compared(low, high string, equal bool) func(config) string {
	return func(c config) string {
		a, ok := c.number(low)
		b, ok2 := c.number(high)
		if !ok || !ok2 || a < b || a == b && equal {
			return ""
		}
		word := "less than"
		if equal {
			word = "at most"
		}
		return fmt.Sprintf("%s %v must be %s %s %v", low, c.get(low), word, high, c.get(high))
	}
}

func pairRules() []rule {
	const (
		grace, critical  = "shutdownGracePeriod", "shutdownGracePeriodCriticalPods"
		byPriority       = "shutdownGracePeriodByPodPriority"
		high, low        = "imageGCHighThresholdPercent", "imageGCLowThresholdPercent"
		oldest, newest   = "imageMaximumGCAge", "imageMinimumGCAge"
		pulls, serial    = "maxParallelImagePulls", "serializeImagePulls"
		query, handler   = "enableSystemLogQuery", "enableSystemLogHandler"
		cpus             = "reservedSystemCPUs"
		ofSystem, ofKube = "systemReservedCgroup", "kubeReservedCgroup"
		allowlist        = "preloadedImagesVerificationAllowlist"
		factor           = "memoryThrottlingFactor"
	)
	pair := func(one, other, text string, wrong func(config) bool) rule {
		return rule{fields: []string{one, other}, wrong: when(wrong, text)}
	}
	second := func(field string) rule {
		return rule{fields: []string{field}, wrong: when(func(c config) bool {
			n, ok := c.number(field)
			return ok && n != 0 && n < float64(time.Second)
		}, "must be zero or at least 1s")}
	}
	return []rule{
		{fields: []string{high, low}, wrong: compared(low, high, false)},
		{fields: []string{oldest, newest}, wrong: func(c config) string {
			if !isMore(oldest, 0)(c) {
				return ""
			}
			return compared(newest, oldest, false)(c)
		}},
		{fields: []string{grace, critical}, wrong: compared(critical, grace, true)},
		second(grace), second(critical),
		pair(byPriority, grace, byPriority+" excludes "+grace+" and "+critical+"; set both to 0s", func(c config) bool {
			l, _ := c.get(byPriority).([]any)
			return len(l) > 0 && (isMore(grace, 0)(c) || isMore(critical, 0)(c))
		}),
		pair(pulls, serial, "maxParallelImagePulls above 1 needs serializeImagePulls: false", func(c config) bool {
			return c.on(serial) && isMore(pulls, 1)(c)
		}),
		pair("systemCgroups", "cgroupRoot", "systemCgroups needs cgroupRoot", func(c config) bool {
			return c.text("systemCgroups") != "" && c.text("cgroupRoot") == ""
		}),
		{fields: []string{cpus, ofSystem, ofKube}, wrong: when(func(c config) bool {
			return c.text(cpus) != "" && c.text(ofSystem)+c.text(ofKube) != ""
		}, cpus+" excludes the reserved cgroups that NodeConfig sets; add "+ofSystem+`: "" and `+ofKube+`: ""`)},
		pair(query, handler, query+" needs "+handler, func(c config) bool { return c.on(query) && !c.on(handler) }),
		{fields: []string{allowlist, pullPolicy}, since: 33, wrong: when(func(c config) bool {
			return len(c.list(allowlist)) > 0 && c.text(pullPolicy) != "NeverVerifyAllowlistedImages"
		}, allowlist+" needs "+pullPolicy+": NeverVerifyAllowlistedImages")},
		{fields: []string{factor}, wrong: when(func(c config) bool {
			n, ok := c.number(factor)
			return ok && (n <= 0 || n > 1)
		}, "must be above 0 and at most 1")},
	}
}

func podLogsDir(c config) string {
	dir := c.text("podLogsDir")
	if !path.IsAbs(dir) || path.Clean(dir) != dir || strings.ContainsFunc(dir, func(r rune) bool { return r > 127 }) {
		return fmt.Sprintf("%q must be an absolute path in ASCII without . and ..", dir)
	}
	return ""
}

var cpuList = show.Regexp(`^\d+(-\d+)?(,\d+(-\d+)?)*$`)

func cpuSet(c config) string {
	value := c.text("reservedSystemCPUs")
	if value == "" || cpuList().MatchString(value) && !backwards(value) {
		return ""
	}
	return fmt.Sprintf("%q must be a list of CPUs such as 0-1,4", value)
}

// backwards reports a range whose end comes first.
func backwards(list string) bool {
	for span := range strings.SplitSeq(list, ",") {
		var from, to int
		if n, _ := fmt.Sscanf(span, "%d-%d", &from, &to); n == 2 && from > to {
			return true
		}
	}
	return false
}

// enforcement checks what the kubelet enforces reservations on.
func enforcement(c config) string {
	values := c.list("enforceNodeAllocatable")
	seen := map[string]bool{}
	for _, v := range values {
		name, _ := strings.CutSuffix(v, "-compressible")
		field := map[string]string{"system-reserved": "systemReservedCgroup",
			"kube-reserved": "kubeReservedCgroup"}[name]
		switch {
		case seen[v]:
			return fmt.Sprintf("%q is listed twice", v)
		case v == "none" && len(values) > 1:
			return "none excludes all other values"
		case v == "none":
			return ""
		case v != "pods" && field == "":
			return fmt.Sprintf("unknown value %q; known are pods, system-reserved, system-reserved-compressible, "+
				"kube-reserved, kube-reserved-compressible, none", v)
		case field != "" && c.text(field) == "":
			return fmt.Sprintf("%s needs %s", v, field)
		case v != name && seen[name], seen[v+"-compressible"]:
			return fmt.Sprintf("%s and %s-compressible exclude each other", name, name)
		case !c.on("cgroupsPerQOS"):
			return fmt.Sprintf("%s needs cgroupsPerQOS: true", v)
		}
		seen[v] = true
	}
	return ""
}

const softEviction, softPeriods = "evictionSoft", "evictionSoftGracePeriod"

// withoutPeriod checks that soft thresholds have a grace period. The kubelet ignores 0% and
// 100%.
func withoutPeriod(c config) string {
	thresholds, _ := object(c.get(softEviction))
	periods, _ := object(c.get(softPeriods))
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		if v := thresholds[signal]; periods[signal] == nil && v != "0%" && v != "100%" {
			return signal + " needs " + softPeriods
		}
	}
	return ""
}

func idsPerPod(c config) string {
	n, ok := c.number("userNamespaces.idsPerPod")
	if !ok || n >= 65536 && math.Mod(n, 65536) == 0 && n <= math.MaxUint32 {
		return ""
	}
	return fmt.Sprintf("%v must be a multiple of 65536 below 2^32", n)
}

func tracingEndpoint(c config) string {
	endpoint := c.text("tracing.endpoint")
	if !strings.Contains(endpoint, "//") {
		endpoint = "dns://" + endpoint
	}
	u, err := url.Parse(endpoint)
	if err == nil && slices.Contains([]string{"dns", "unix", "unix-abstract"}, u.Scheme) {
		return ""
	}
	return fmt.Sprintf("%q must be host:port, or an address with dns, unix or unix-abstract", endpoint)
}

// Problems returns why a kubelet of a minor version does not start with a configuration
// that first boot makes of base, the user's part, and the kubelet's flags. It returns
// nothing for a minor version without rules. Fields of another type, and the forms of
// labels and taints, are not checked.
func Problems(minor int, base, user map[string]any, flags []string) []Problem {
	if minor < Oldest || minor > Newest {
		return nil
	}
	problems, flagged := readFlags(minor, flags)
	if len(user)+len(flagged) == 0 {
		return problems // every kubelet starts with what first boot configures
	}
	c := newConfig(minor, base, user, flagged)
	gates := c.gateProblems()
	if problems = append(problems, gates...); len(gates) > 0 {
		return problems
	}
	set := fieldsSet(merge(user, flagged))
	for _, r := range rules() {
		if r.since > minor {
			continue
		}
		if said := r.wrong(c); said != "" {
			problems = append(problems, Problem{Field: blamed(r.fields, set), Text: said})
		}
	}
	return problems
}

func blamed(fields, set []string) string {
	for _, f := range fields {
		if slices.Contains(set, f) {
			return f
		}
	}
	return fields[0]
}
