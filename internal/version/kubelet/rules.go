package kubelet

import (
	"fmt"
	"math"
	"net/url"
	"path"
	"slices"
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
	// since and until are minor versions; 0 has no bound.
	since, until int
	// wrong says what is wrong, or nothing.
	wrong func(config) string
}

// rules are those of pkg/kubelet/apis/config/validation of k8s.io/kubernetes.
var rules = sync.OnceValue(func() []rule {
	return slices.Concat(numberRules(), choiceRules(), gateRules(), pairRules(), []rule{
		{fields: []string{"runOnce"}, wrong: when(func(c config) bool { return c.on("runOnce") }, "the kubelet no longer has this mode")},
		{fields: []string{"podLogsDir"}, wrong: podLogsDir},
		{fields: []string{"reservedSystemCPUs"}, wrong: cpuSet},
		{fields: []string{"enforceNodeAllocatable"}, wrong: enforcement},
		{fields: []string{"userNamespaces.idsPerPod"}, since: 33, wrong: idsPerPod},
		{fields: []string{"tracing.endpoint"}, wrong: tracingEndpoint},
	})
})

// between bounds numbers; unit is appended to them.
func between(field string, low, high float64) rule {
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
		case !ok || low <= n && n <= high:
			return ""
		case math.IsInf(high, 1):
			return fmt.Sprintf("%v must be at least %s", c.get(field), show(low))
		}
		return fmt.Sprintf("%v must be from %s to %s", c.get(field), show(low), show(high))
	}}
}

func (r rule) in(since, until int) rule {
	r.since, r.until = since, until
	return r
}

func numberRules() []rule {
	none := math.Inf(1)
	all := []rule{
		between("nodeLeaseDurationSeconds", 1, none), between("imageGCHighThresholdPercent", 0, 100), between("imageGCLowThresholdPercent", 0, 100),
		between("iptablesDropBit", 0, 31), between("iptablesMasqueradeBit", 0, 31), between("nodeStatusMaxImages", -1, none),
		between("oomScoreAdj", -1000, 1000), between("port", 1, 65535), between("readOnlyPort", 0, 65535), between("healthzPort", 0, 65535),
		between("maxParallelImagePulls", 1, none), between("containerLogMaxWorkers", 1, none), between("containerLogMaxFiles", 2, none).in(33, 0),
		between("containerLogMonitorInterval", float64(3*time.Second), none), between("imageMaximumGCAge", 0, none),
		between("imageMinimumGCAge", 0, none).in(36, 0), between("logging.verbosity", 0, math.MaxInt32),
		between("logging.flushFrequency", 1, none).in(35, 0), between("tracing.samplingRatePerMillion", 0, 1e6),
	}
	for _, field := range []string{"eventBurst", "eventRecordQPS", "kubeAPIBurst", "kubeAPIQPS", "maxOpenFiles", "maxPods", "podsPerCore", "registryBurst", "registryPullQPS"} {
		all = append(all, between(field, 0, none))
	}
	return all
}

// oneOf bounds a text to choices.
func oneOf(field string, choices ...string) rule {
	return rule{fields: []string{field}, wrong: func(c config) string {
		value, isText := c.get(field).(string)
		if !isText || slices.Contains(choices, value) {
			return ""
		}
		return fmt.Sprintf("unknown value %q; known are %s", value, strings.TrimPrefix(strings.Join(choices, ", "), ", "))
	}}
}

func choiceRules() []rule {
	swap := oneOf("memorySwap.swapBehavior", "", "NoSwap", "LimitedSwap")
	verify := oneOf(pullPolicy, "", "NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")
	return []rule{
		oneOf("topologyManagerPolicy", "none", "best-effort", "restricted", "single-numa-node"), oneOf("topologyManagerScope", "container", "pod"),
		oneOf("hairpinMode", "promiscuous-bridge", "hairpin-veth", "none"), oneOf("logging.format", "text", "json"), swap, verify.in(33, 0),
		oneOf("memoryReservationPolicy", "None", "TieredReservation").in(36, 0),
	}
}

func needs(gate, field string, set func(config) bool) rule {
	return rule{fields: []string{field, "featureGates." + gate}, wrong: func(c config) string {
		if c.gate(gate) || !set(c) {
			return ""
		}
		return field + " needs the feature gate " + gate
	}}
}

func isSet(field string) func(config) bool {
	return func(c config) bool { return c.get(field) != nil && c.get(field) != "" }
}

func isMore(field string, than float64) func(config) bool {
	return func(c config) bool {
		n, ok := c.number(field)
		return ok && n > than
	}
}

func isOn(field string) func(config) bool { return func(c config) bool { return c.on(field) } }

func isBuffer(field string) func(config) bool {
	return func(c config) bool { return isSet(field)(c) && fmt.Sprint(c.get(field)) != "0" }
}

func gateRules() []rule {
	other := func(field, value string) func(config) bool {
		return func(c config) bool { return c.text(field) == value }
	}
	period := between("cpuCFSQuotaPeriod", float64(time.Millisecond), float64(time.Second))
	within := period.wrong
	period.wrong = func(c config) string {
		if !c.gate("CustomCPUCFSQuotaPeriod") {
			return ""
		}
		return within(c)
	}
	custom := needs("CustomCPUCFSQuotaPeriod", "cpuCFSQuotaPeriod", func(c config) bool {
		n, ok := c.number("cpuCFSQuotaPeriod")
		return ok && n != float64(100*time.Millisecond)
	})
	const graceful, byPriority, alpha = "GracefulNodeShutdown", "GracefulNodeShutdownBasedOnPodPriority", "LoggingAlphaOptions"
	return []rule{
		period, custom,
		needs("ImageMaximumGCAge", "imageMaximumGCAge", func(c config) bool { n, ok := c.number("imageMaximumGCAge"); return ok && n != 0 }),
		needs("RotateKubeletServerCertificate", "serverTLSBootstrap", isOn("serverTLSBootstrap")),
		needs(graceful, "shutdownGracePeriod", isMore("shutdownGracePeriod", 0)),
		needs(byPriority, "shutdownGracePeriodByPodPriority", func(c config) bool { l, _ := c.get("shutdownGracePeriodByPodPriority").([]any); return len(l) > 0 }),
		needs("NodeSwap", "memorySwap.swapBehavior", isSet("memorySwap.swapBehavior")),
		needs("KubeletCrashLoopBackOffMax", restartPeriod, isSet(restartPeriod)),
		needs("NodeLogQuery", "enableSystemLogQuery", isOn("enableSystemLogQuery")),
		needs("MemoryQoS", "memoryReservationPolicy", other("memoryReservationPolicy", "TieredReservation")).in(36, 0),
		needs("MemoryQoS", "memoryThrottlingFactor", func(c config) bool { n, ok := c.number("memoryThrottlingFactor"); return ok && n != 0.9 }).in(37, 0),
		needs("KubeletEnsureSecretPulledImages", pullPolicy, isSet(pullPolicy)).in(33, 0),
		needs(alpha, "logging.options.text.splitStream", isOn("logging.options.text.splitStream")),
		needs(alpha, "logging.options.json.splitStream", isOn("logging.options.json.splitStream")),
		needs(alpha, "logging.options.text.infoBufferSize", isBuffer("logging.options.text.infoBufferSize")),
		needs(alpha, "logging.options.json.infoBufferSize", isBuffer("logging.options.json.infoBufferSize")),
		between(restartPeriod, float64(time.Second), float64(300*time.Second)),
	}
}

// when reports a text where a condition holds.
func when(condition func(config) bool, format string, args ...any) func(config) string {
	return func(c config) string {
		if condition(c) {
			return fmt.Sprintf(format, args...)
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
	const grace, critical, byPriority = "shutdownGracePeriod", "shutdownGracePeriodCriticalPods", "shutdownGracePeriodByPodPriority"
	second := func(field string) rule {
		return rule{fields: []string{field}, wrong: when(func(c config) bool {
			n, ok := c.number(field)
			return ok && n != 0 && n < float64(time.Second)
		}, "must be zero or at least 1s")}
	}
	return []rule{
		{fields: []string{"imageGCHighThresholdPercent", "imageGCLowThresholdPercent"}, wrong: compared("imageGCLowThresholdPercent", "imageGCHighThresholdPercent", false)},
		{fields: []string{"imageMaximumGCAge", "imageMinimumGCAge"}, wrong: func(c config) string {
			if !isMore("imageMaximumGCAge", 0)(c) {
				return ""
			}
			return compared("imageMinimumGCAge", "imageMaximumGCAge", false)(c)
		}},
		{fields: []string{grace, critical}, wrong: compared(critical, grace, true)},
		second(grace), second(critical),
		{fields: []string{byPriority, grace}, wrong: when(func(c config) bool {
			l, _ := c.get(byPriority).([]any)
			return len(l) > 0 && (isMore(grace, 0)(c) || isMore(critical, 0)(c))
		}, "%s excludes %s and %s; set both to 0s", byPriority, grace, critical)},
		{fields: []string{"maxParallelImagePulls", "serializeImagePulls"}, wrong: when(func(c config) bool {
			return c.on("serializeImagePulls") && isMore("maxParallelImagePulls", 1)(c)
		}, "maxParallelImagePulls above 1 needs serializeImagePulls: false")},
		{fields: []string{"systemCgroups", "cgroupRoot"}, wrong: when(func(c config) bool { return c.text("systemCgroups") != "" && c.text("cgroupRoot") == "" }, "systemCgroups needs cgroupRoot")},
		{fields: []string{"reservedSystemCPUs", "systemReservedCgroup", "kubeReservedCgroup"}, wrong: when(func(c config) bool {
			return c.text("reservedSystemCPUs") != "" && c.text("systemReservedCgroup")+c.text("kubeReservedCgroup") != ""
		}, `reservedSystemCPUs excludes the reserved cgroups that NodeConfig sets; add systemReservedCgroup: "" and kubeReservedCgroup: ""`)},
		{fields: []string{"enableSystemLogQuery", "enableSystemLogHandler"}, wrong: when(func(c config) bool {
			return c.on("enableSystemLogQuery") && !c.on("enableSystemLogHandler")
		}, "enableSystemLogQuery needs enableSystemLogHandler")},
		{fields: []string{"preloadedImagesVerificationAllowlist", pullPolicy}, since: 33, wrong: when(func(c config) bool {
			return len(c.list("preloadedImagesVerificationAllowlist")) > 0 && c.text(pullPolicy) != "NeverVerifyAllowlistedImages"
		}, "preloadedImagesVerificationAllowlist needs %s: NeverVerifyAllowlistedImages", pullPolicy)},
		{fields: []string{"memoryThrottlingFactor"}, wrong: when(func(c config) bool {
			n, ok := c.number("memoryThrottlingFactor")
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
		field := map[string]string{"system-reserved": "systemReservedCgroup", "kube-reserved": "kubeReservedCgroup"}[name]
		switch {
		case seen[v]:
			return fmt.Sprintf("%q is listed twice", v)
		case v == "none" && len(values) > 1:
			return "none excludes all other values"
		case v == "none":
			return ""
		case v != "pods" && field == "":
			return fmt.Sprintf("unknown value %q; known are pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible, none", v)
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
		if r.since > minor || r.until != 0 && r.until < minor {
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
