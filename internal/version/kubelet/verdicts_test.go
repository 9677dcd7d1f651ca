package kubelet

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// start is a start of a kubelet with the base configuration of its minor version.
type start struct {
	User  map[string]any `json:"user,omitempty"`
	Flags []string       `json:"flags,omitempty"`
}

func (s start) String() string {
	text, _ := json.Marshal(s) // cannot fail
	return string(text)
}

func (s start) problems(minor int) []Problem {
	return Problems(minor, Base(minor), s.User, s.Flags)
}

// starts are configurations at the bounds of each rule, and pairs of settings that rules
// connect.
func starts() []start {
	all := []start{{}}
	set := func(field string, values ...any) {
		for _, value := range values {
			c := config{fields: map[string]any{}}
			c.set(field, value)
			all = append(all, start{User: c.fields})
		}
	}
	for _, field := range []string{
		"eventBurst", "eventRecordQPS", "kubeAPIBurst", "kubeAPIQPS", "maxOpenFiles", "maxPods", "podsPerCore", "registryBurst",
		"registryPullQPS", "nodeLeaseDurationSeconds", "nodeStatusMaxImages", "maxParallelImagePulls", "containerLogMaxWorkers",
		"containerLogMaxFiles", "podPidsLimit", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
	} {
		set(field, -2, -1, 0, 1, 2, 79, 80, 81, 84, 85, 86, 100, 101)
	}
	for _, field := range []string{"port", "readOnlyPort", "healthzPort"} {
		set(field, -1, 0, 1, 65535, 65536)
	}
	for _, field := range []string{"iptablesDropBit", "iptablesMasqueradeBit"} {
		set(field, -1, 0, 31, 32)
	}
	set("oomScoreAdj", -1001, -1000, 1000, 1001)
	for _, field := range []string{
		"imageMinimumGCAge", "imageMaximumGCAge", "containerLogMonitorInterval", "cpuCFSQuotaPeriod", "shutdownGracePeriod",
		"shutdownGracePeriodCriticalPods", "crashLoopBackOff.maxContainerRestartPeriod", "logging.flushFrequency",
		"nodeStatusUpdateFrequency", "runtimeRequestTimeout", "syncFrequency",
	} {
		set(field, "-1s", "0s", "500us", "999ms", "1s", "2s", "3s", "29s", "30s", "2m", "2m1s", "2m30s", "2m31s", "5m", "5m1s", "100ms")
	}
	for _, field := range []string{
		"topologyManagerPolicy", "topologyManagerScope", "hairpinMode", "memorySwap.swapBehavior", "imagePullCredentialsVerificationPolicy",
		"memoryReservationPolicy", "logging.format", "podLogsDir", "containerRuntimeEndpoint", "reservedSystemCPUs", "cgroupRoot",
		"systemReservedCgroup", "kubeReservedCgroup", "systemCgroups", "tracing.endpoint",
	} {
		set(field, "", "foo", "/foo", nil)
	}
	set("topologyManagerPolicy", "none", "best-effort", "restricted", "single-numa-node")
	set("topologyManagerScope", "container", "pod", "Pod")
	set("hairpinMode", "promiscuous-bridge", "hairpin-veth", "none")
	set("memorySwap.swapBehavior", "NoSwap", "LimitedSwap", "UnlimitedSwap")
	set("imagePullCredentialsVerificationPolicy", "NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify")
	set("memoryReservationPolicy", "None", "TieredReservation")
	set("logging.format", "text", "json", "JSON")
	set("logging.verbosity", 0, 9, 2147483647, 2147483648)
	set("podLogsDir", "/var/log/../pods", "/var/log/pods/", "/pödß", "relative")
	set("memoryThrottlingFactor", 0, 0.1, 0.9, 1.0, 1.1, -1)
	set("userNamespaces.idsPerPod", 0, 65535, 65536, 65537, 131072, 4294967296)
	set("tracing.samplingRatePerMillion", -1, 0, 1000000, 1000001)
	set("tracing.endpoint", "localhost:4317", "unix:///run/otel.sock", "http://localhost:4317", "dns:///x")
	set("runOnce", true, false)
	set("enableSystemLogQuery", true, false)
	set("serverTLSBootstrap", true, false)
	set("serializeImagePulls", true, false, nil)
	for _, list := range [][]string{
		{}, {"none"}, {"pods"}, {"none", "pods"}, {"pods", "none"}, {"pods", "pods"}, {"system-reserved"}, {"pods", "kube-reserved"}, {"pods", "foo"},
		{"system-reserved", "system-reserved-compressible"}, {"kube-reserved-compressible", "kube-reserved"}, {"pods", "system-reserved-compressible"},
	} {
		set("enforceNodeAllocatable", list)
		all = append(all, start{User: map[string]any{"enforceNodeAllocatable": list, "systemReservedCgroup": "", "kubeReservedCgroup": ""}},
			start{User: map[string]any{"enforceNodeAllocatable": list, "cgroupsPerQOS": false}})
	}
	for _, text := range pairs {
		var s start
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			panic(text)
		}
		all = append(all, s)
	}
	return all
}

var pairs = []string{
	`{"user":{"imageGCHighThresholdPercent":70}}`,
	`{"user":{"imageGCHighThresholdPercent":70,"imageGCLowThresholdPercent":69}}`,
	`{"user":{"imageGCHighThresholdPercent":0,"imageGCLowThresholdPercent":0}}`,
	`{"user":{"imageGCHighThresholdPercent":70},"flags":["--image-gc-low-threshold=60"]}`,
	`{"user":{"imageGCLowThresholdPercent":60},"flags":["--image-gc-high-threshold=60"]}`,
	`{"user":{"imageMinimumGCAge":"10m","imageMaximumGCAge":"10m"}}`,
	`{"user":{"imageMinimumGCAge":"10m","imageMaximumGCAge":"11m"}}`,
	`{"user":{"serializeImagePulls":true,"maxParallelImagePulls":1}}`,
	`{"user":{"serializeImagePulls":true,"maxParallelImagePulls":2}}`,
	`{"user":{"serializeImagePulls":null,"maxParallelImagePulls":2}}`,
	`{"user":{"serializeImagePulls":null,"maxParallelImagePulls":1}}`,
	`{"user":{"maxParallelImagePulls":5},"flags":["--serialize-image-pulls"]}`,
	`{"user":{"maxParallelImagePulls":5},"flags":["--serialize-image-pulls=false"]}`,
	`{"user":{"reservedSystemCPUs":"0-1,4"}}`,
	`{"user":{"reservedSystemCPUs":"0-1,4","systemReservedCgroup":"","kubeReservedCgroup":""}}`,
	`{"user":{"reservedSystemCPUs":"0-1,4","systemReservedCgroup":null,"kubeReservedCgroup":null}}`,
	`{"user":{"reservedSystemCPUs":"0","systemReservedCgroup":""}}`,
	`{"user":{"reservedSystemCPUs":"x","systemReservedCgroup":"","kubeReservedCgroup":""}}`,
	`{"user":{"reservedSystemCPUs":"3-1","systemReservedCgroup":"","kubeReservedCgroup":""}}`,
	`{"user":{"reservedSystemCPUs":"1,","systemReservedCgroup":"","kubeReservedCgroup":""}}`,
	`{"flags":["--reserved-cpus=0"]}`,
	`{"flags":["--reserved-cpus=0","--system-reserved-cgroup=","--kube-reserved-cgroup="]}`,
	`{"user":{"systemReservedCgroup":"","kubeReservedCgroup":""},"flags":["--reserved-cpus=0"]}`,
	`{"user":{"shutdownGracePeriod":"10s","shutdownGracePeriodCriticalPods":"10s"}}`,
	`{"user":{"shutdownGracePeriod":"10s","shutdownGracePeriodCriticalPods":"11s"}}`,
	`{"user":{"shutdownGracePeriod":"0s","shutdownGracePeriodCriticalPods":"0s"}}`,
	`{"user":{"shutdownGracePeriod":"0s"}}`,
	`{"user":{"shutdownGracePeriodByPodPriority":[{"priority":1,"shutdownGracePeriodSeconds":10}]}}`,
	`{"user":{"shutdownGracePeriod":"0s","shutdownGracePeriodCriticalPods":"0s","shutdownGracePeriodByPodPriority":[{"priority":1,"shutdownGracePeriodSeconds":10}]}}`,
	`{"user":{"featureGates":{"GracefulNodeShutdown":false}}}`,
	`{"user":{"featureGates":{"GracefulNodeShutdown":false},"shutdownGracePeriod":"1m"}}`,
	`{"user":{"featureGates":{"GracefulNodeShutdownBasedOnPodPriority":false},"shutdownGracePeriodByPodPriority":[{"priority":1,"shutdownGracePeriodSeconds":10}]}}`,
	`{"user":{"featureGates":{"CustomCPUCFSQuotaPeriod":true},"cpuCFSQuotaPeriod":"5ms"}}`,
	`{"user":{"featureGates":{"CustomCPUCFSQuotaPeriod":true},"cpuCFSQuotaPeriod":"2s"}}`,
	`{"user":{"featureGates":{"CustomCPUCFSQuotaPeriod":false},"cpuCFSQuotaPeriod":"100ms"}}`,
	`{"user":{"featureGates":{"KubeletCrashLoopBackOffMax":true},"crashLoopBackOff":{"maxContainerRestartPeriod":"10s"}}}`,
	`{"user":{"featureGates":{"KubeletCrashLoopBackOffMax":true},"crashLoopBackOff":{"maxContainerRestartPeriod":"301s"}}}`,
	`{"user":{"featureGates":{"KubeletCrashLoopBackOffMax":true}}}`,
	`{"user":{"featureGates":{"KubeletCrashLoopBackOffMax":false}}}`,
	`{"user":{"featureGates":{"KubeletEnsureSecretPulledImages":false}}}`,
	`{"user":{"featureGates":{"KubeletEnsureSecretPulledImages":true},"imagePullCredentialsVerificationPolicy":"AlwaysVerify"}}`,
	`{"user":{"featureGates":{"KubeletEnsureSecretPulledImages":true},"imagePullCredentialsVerificationPolicy":"Sometimes"}}`,
	`{"user":{"featureGates":{"KubeletEnsureSecretPulledImages":true},"preloadedImagesVerificationAllowlist":["a"]}}`,
	`{"user":{"preloadedImagesVerificationAllowlist":["a"]}}`,
	`{"user":{"featureGates":{"NodeSwap":false},"memorySwap":{"swapBehavior":"NoSwap"}}}`,
	`{"user":{"featureGates":{"NodeSwap":true},"failSwapOn":false,"memorySwap":{"swapBehavior":"LimitedSwap"}}}`,
	`{"user":{"featureGates":{"NodeLogQuery":true},"enableSystemLogQuery":true}}`,
	`{"user":{"featureGates":{"NodeLogQuery":true},"enableSystemLogQuery":true,"enableSystemLogHandler":false}}`,
	`{"user":{"featureGates":{"MemoryQoS":true},"memoryThrottlingFactor":0.5}}`,
	`{"user":{"featureGates":{"MemoryQoS":true},"memoryThrottlingFactor":1.5}}`,
	`{"user":{"featureGates":{"MemoryQoS":true},"memoryReservationPolicy":"TieredReservation"}}`,
	`{"user":{"featureGates":{"RotateKubeletServerCertificate":false}}}`,
	`{"user":{"featureGates":{"RotateKubeletServerCertificate":false},"serverTLSBootstrap":false}}`,
	`{"user":{"featureGates":{"ImageMaximumGCAge":false},"imageMaximumGCAge":"10m"}}`,
	`{"user":{"featureGates":{"NoSuchGate":true}}}`,
	`{"user":{"featureGates":{"DynamicResourceAllocation":false}}}`,
	`{"user":{"featureGates":{"AllAlpha":true}}}`,
	`{"user":{"featureGates":{"AllAlpha":false}}}`,
	`{"user":{"featureGates":{"AllBeta":true}}}`,
	`{"user":{"featureGates":{"AllBeta":false}}}`,
	`{"user":{"featureGates":{"AllAlpha":true},"cpuCFSQuotaPeriod":"5ms"}}`,
	`{"user":{"featureGates":{"AllBeta":false},"enableSystemLogQuery":true}}`,
	`{"user":{"featureGates":{"NodeSwap":true}},"flags":["--feature-gates=NodeSwap=false"]}`,
	`{"flags":["--feature-gates=NoSuchGate=true"]}`,
	`{"flags":["--feature-gates=RotateKubeletServerCertificate=false"]}`,
	`{"flags":["--feature-gates=NodeSwap"]}`,
	`{"flags":["--feature-gates=NodeSwap=maybe"]}`,
	`{"user":{"systemCgroups":"/system.slice","cgroupRoot":""}}`,
	`{"user":{"topologyManagerPolicy":"foo"},"flags":["--topology-manager-policy=none"]}`,
	`{"flags":["--topology-manager-policy=foo"]}`,
	`{"flags":["--topology-manager-policy="]}`,
	`{"flags":["--v=x"]}`,
	`{"flags":["--v=4"]}`,
	`{"flags":["--container-log-max-files=1"]}`,
	`{"flags":["--container-log-max-files","1"]}`,
	`{"flags":["--max-pods=-1"]}`,
	`{"flags":["--max_pods=110"]}`,
	`{"flags":["--kube-api-qps=-5","--kube-api-burst=10"]}`,
	`{"flags":["--enforce-node-allocatable=none"]}`,
	`{"flags":["--enforce-node-allocatable=pods,foo"]}`,
	`{"flags":["--enforce-node-allocatable=pods","--enforce-node-allocatable=kube-reserved"]}`,
	`{"flags":["--no-such-flag=1"]}`,
	`{"flags":["--max-pods"]}`,
	`{"flags":["word"]}`,
}

const verdictsFile = "testdata/verdicts.txt"

// TestRulesAreThoseOfKubelets compares the rules with what the code of each kubelet says
// about the same starts.
func TestRulesAreThoseOfKubelets(t *testing.T) {
	text := testkit.Content(t, verdictsFile)
	refused := map[string]string{}
	for line := range strings.Lines(text) {
		if key, minors, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
			minors, _, _ = strings.Cut(minors, "\t")
			refused[key] = minors
		}
	}
	for _, s := range starts() {
		minors, judged := refused[s.String()]
		require.True(t, judged, "%s has no verdict; run make kubelet", s)
		for minor := Oldest; minor <= Newest; minor++ {
			want := slices.Contains(strings.Split(minors, ","), fmt.Sprint(minor))
			assert.Equal(t, want, len(s.problems(minor)) > 0, "1.%d: %s: %v", minor, s, s.problems(minor))
		}
	}
}
