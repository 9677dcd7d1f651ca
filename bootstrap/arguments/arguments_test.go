package arguments

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/strictjson"
)

// everySetting is the result of a call with every flag.
func everySetting() *Arguments {
	yes := true
	return &Arguments{
		Cluster: "my-cluster", Endpoint: "https://a.example", CA: "Y2E=", RetryAttempts: 5, ClusterID: "id-1",
		Outpost: &yes, DNS: []string{"10.0.0.10", "10.0.0.11"}, ServiceIPv4CIDR: "10.0.0.0/16",
		ServiceIPv6CIDR: "fd00::/108", IPFamily: "ipv6", KubeletExtraArgs: "--node-labels=a=b --v=3",
		ContainerdConfigFile: "/tmp/c.toml", PauseAccount: "123456789012", PauseVersion: "3.10", LocalDisks: "raid10",
		Warnings: []string{
			"--docker-config-json has no effect: containerd is the only container runtime",
			"--enable-docker-bridge has no effect: containerd is the only container runtime",
		},
	}
}

func TestEveryFlagIsRead(t *testing.T) {
	a := parsed(t, []string{
		"--apiserver-endpoint", "https://a.example", "--b64-cluster-ca", "Y2E=", "--aws-api-retry-attempts", "5",
		"--cluster-id", "id-1", "--enable-local-outpost", "true", "--container-runtime", "containerd",
		"--docker-config-json", "{}", "--enable-docker-bridge", "true", "--containerd-config-file", "/tmp/c.toml",
		"--dns-cluster-ip", "10.0.0.10, 10.0.0.11", "--service-ipv4-cidr", "10.0.0.0/16", "--service-ipv6-cidr",
		"fd00::/108",
		"--ip-family", "IPv6", "my-cluster", "--kubelet-extra-args", "--node-labels=a=b --v=3", "--local-disks",
		"raid10",
		"--mount-bpf-fs", "false", "--use-max-pods", "false", "--pause-container-account", "123456789012",
		"--pause-container-version=3.10",
	})
	assert.Equal(t, everySetting(), a)
	require.NoError(t, a.Validate())
	assert.False(t, a.Describe())
}

// Calls found in launch templates and in guides.
func TestCallsInLaunchTemplatesAndGuides(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want func(*Arguments)
	}{
		"name only": {[]string{"bys-dev-eks-main"}, func(a *Arguments) { a.Cluster = "bys-dev-eks-main" }},
		"AWS's example": {[]string{
			"my-cluster", "--b64-cluster-ca", "certificate-authority", "--apiserver-endpoint", "api-server-endpoint",
			"--dns-cluster-ip", "service-cidr.10", "--container-runtime", "containerd",
			"--kubelet-extra-args", "--max-pods=my-max-pods-value", "--use-max-pods", "false",
		}, func(a *Arguments) {
			a.Cluster, a.CA, a.Endpoint, a.DNS = "my-cluster", "certificate-authority", "api-server-endpoint",
				[]string{"service-cidr.10"}
			a.KubeletExtraArgs, a.UseMaxPods = "--max-pods=my-max-pods-value", false
		}},
		"name last": {[]string{"--apiserver-endpoint", "CLUSTER-ENDPOINT", "--b64-cluster-ca",
			"CERTIFICATE_AUTHORITY_DATA", "CLUSTER_NAME"}, func(a *Arguments) {
			a.Cluster, a.CA, a.Endpoint = "CLUSTER_NAME", "CERTIFICATE_AUTHORITY_DATA", "CLUSTER-ENDPOINT"
		}},
		"empty shell variables": {[]string{"", "c", "--b64-cluster-ca", "", "--apiserver-endpoint", "",
			"--local-disks", ""}, func(a *Arguments) {
			a.Cluster = "c"
			a.Warnings = []string{"an empty argument precedes the cluster's name: Amazon Linux 2's script takes it " +
				"as the name, and fails"}
		}},
		"empty extra arguments": {[]string{"c", "--kubelet-extra-args", " "}, func(a *Arguments) { a.Cluster = "c" }},
	} {
		t.Run(name, func(t *testing.T) {
			a := parsed(t, c.args)
			want := New()
			c.want(want)
			assert.Equal(t, want, a)
		})
	}
}

// The script ignores unknown flags, and compares booleans with "true".
func TestMistakesAreNamed(t *testing.T) {
	var calls []struct {
		Args        []string          `json:"args"`
		Environment map[string]string `json:"environment"`
		Mistakes    []struct {
			Text    string `json:"text"`
			Instead string `json:"instead"`
		} `json:"mistakes"`
	}
	text := testkit.Content(t, "testdata/mistakes.yaml")
	_, err := strictjson.ReadYAML("mistakes.yaml", []byte(text), &calls)
	require.NoError(t, err)
	for _, c := range calls {
		getenv := func(name string) string { return c.Environment[name] }
		var all, stops, warnings []string
		for _, m := range c.Mistakes {
			all = append(all, m.Text)
			if m.Instead == "" {
				stops = append(stops, m.Text)
			} else {
				warnings = append(warnings, m.Text+"; "+m.Instead)
			}
		}
		_, err := ParseWith(slices.Clone(c.Args), getenv)
		require.EqualError(t, err, strings.Join(all, "\n"))
		a, err := Read(slices.Clone(c.Args), getenv)
		if len(stops) > 0 {
			require.EqualError(t, err, strings.Join(stops, "\n"))
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "c", a.Cluster)
		assert.Equal(t, warnings, a.Warnings)
		require.NoError(t, a.Validate())
	}
	_, err = Parse([]string{"c", "--help"})
	assert.ErrorIs(t, err, ErrHelp)
}

func TestValuesAreChecked(t *testing.T) {
	a := parsed(t, []string{
		"a/b", "--apiserver-endpoint", "api-server-endpoint", "--b64-cluster-ca", "<ca>", "--dns-cluster-ip",
		"service-cidr.10",
		"--service-ipv4-cidr", "fd00::/108", "--service-ipv6-cidr", "fd00::/108", "--ip-family", "ipv4",
		"--pause-container-version", "3 5",
	})
	assert.EqualError(t, a.Validate(), `the cluster's name: "a/b" is not a cluster name: up to 100 letters, digits, - and _
--apiserver-endpoint: "api-server-endpoint" must be an address such as https://ABC.gr7.eu-west-1.eks.amazonaws.com
--b64-cluster-ca: the value is not base64: illegal base64 data at input byte 0
--pause-container-version: "3 5" is not an image tag
--dns-cluster-ip: "service-cidr.10" is no address
--service-ipv4-cidr: "fd00::/108" is no such network
--ip-family: must be ipv6 if --service-ipv6-cidr is set`)
	a, err := Parse([]string{"c", "--apiserver-endpoint", "https://a", "--b64-cluster-ca", "Y2E=", "--ip-family",
		"ipv6"})
	require.NoError(t, err)
	assert.EqualError(t, a.Validate(), "--ip-family: ipv6 needs --service-ipv6-cidr or --dns-cluster-ip")
}

func TestRepeatedFlagsAreReported(t *testing.T) {
	a := parsed(t, []string{
		"c", "--ip-family", "ipv4", "--ip-family=ipv4", "--use-max-pods", "true", "--use-max-pods", "false",
	})
	assert.False(t, a.UseMaxPods)
	assert.Equal(t, []string{"--use-max-pods is set twice; the last value is used"}, a.Warnings)
}

func TestOpenQuoteIsRefused(t *testing.T) {
	a := parsed(t, []string{"c", "--kubelet-extra-args", `--node-labels="a=b --v=2`})
	assert.EqualError(t, a.Validate(), `--kubelet-extra-args: " is not closed in --node-labels="a=b --v=2`)
}

// Values that are written to files of other programs contain no line breaks or other
// control characters.
func TestControlCharactersAreRefused(t *testing.T) {
	for flag, good := range map[string]string{
		"--apiserver-endpoint": "https://a", "--cluster-id": "a", "--dns-cluster-ip": "10.0.0.10",
		"--kubelet-extra-args": "--v=", "--pause-container-version": "3.5",
		"--service-ipv4-cidr": "10.0.0.0/16", "": "c",
	} {
		for _, bad := range []string{"\nb", "\rb", "\x00b", "\x0bb", "\x1b[2K", "\x7f", "\u0085b", "\xffb"} {
			args := []string{"c", flag, good + bad}
			if flag == "" {
				args = []string{good + bad}
			}
			a, err := Parse(args)
			if err == nil {
				err = a.Validate()
			}
			require.Error(t, err, "%s %q", flag, bad)
			assert.NotContains(t, err.Error(), bad)
		}
	}
	a := parsed(t, []string{"c", "--dns-cluster-ip", "fe80::1%a\nsearch b", "--kubelet-extra-args", `--a=b\`})
	assert.EqualError(t, a.Validate(), "--kubelet-extra-args: a flag must not end in \\, which takes away what "+
		"follows\n--dns-cluster-ip: \"fe80::1%a\\nsearch b\" is no address")
	_, err := Parse([]string{"c", "--a\x1b[2J"})
	assert.EqualError(t, err, `unknown flag --a\x1b[2J`)
}

func TestUsageNamesEveryFlag(t *testing.T) {
	text := Usage("bootstrap.sh")
	assert.True(t, strings.HasPrefix(text, "usage: bootstrap.sh [flags] CLUSTER\n"))
	assert.True(t, slices.IsSortedFunc(flags(), func(a, b flag) int { return strings.Compare(a.name, b.name) }))
	assert.Len(t, flags(), 20, "Amazon Linux 2's script has 19 flags, and one setting that only the environment has")
	for _, f := range flags() {
		assert.Contains(t, text, "  "+f.name+" ")
		assert.Contains(t, text, "  "+f.variable+" ")
	}
}

// The names are the variables in Amazon Linux 2's last bootstrap.sh, which the script
// assigns in its loop over the flags or reads with ${NAME:-default}.
func TestEnvironmentSetsEverySetting(t *testing.T) {
	environment := map[string]string{
		"APISERVER_ENDPOINT": "https://a.example", "B64_CLUSTER_CA": "Y2E=", "API_RETRY_ATTEMPTS": "5",
		"CLUSTER_ID":           "id-1",
		"ENABLE_LOCAL_OUTPOST": "true", "CONTAINER_RUNTIME": "containerd", "DOCKER_CONFIG_JSON": "{}",
		"ENABLE_DOCKER_BRIDGE":   "true",
		"CONTAINERD_CONFIG_FILE": "/tmp/c.toml", "DNS_CLUSTER_IP": "10.0.0.10,10.0.0.11",
		"SERVICE_IPV4_CIDR": "10.0.0.0/16",
		"SERVICE_IPV6_CIDR": "fd00::/108", "IP_FAMILY": "IPv6", "KUBELET_EXTRA_ARGS": "--node-labels=a=b --v=3",
		"LOCAL_DISKS":  "raid10",
		"MOUNT_BPF_FS": "false", "USE_MAX_PODS": "false", "PAUSE_CONTAINER_ACCOUNT": "123456789012",
		"PAUSE_CONTAINER_VERSION": "3.10",
		"PAUSE_CONTAINER_IMAGE":   "registry.example/pause", "CLUSTER_NAME": "of-no-effect",
	}
	a, err := Read([]string{"my-cluster"}, func(name string) string { return environment[name] })
	require.NoError(t, err)
	require.NoError(t, a.Validate())
	want := everySetting()
	want.PauseImage = "registry.example/pause"
	want.Variables = []string{
		"PAUSE_CONTAINER_IMAGE", "APISERVER_ENDPOINT", "API_RETRY_ATTEMPTS", "B64_CLUSTER_CA", "CLUSTER_ID",
		"CONTAINER_RUNTIME", "CONTAINERD_CONFIG_FILE", "DNS_CLUSTER_IP", "DOCKER_CONFIG_JSON", "ENABLE_DOCKER_BRIDGE",
		"ENABLE_LOCAL_OUTPOST", "IP_FAMILY", "KUBELET_EXTRA_ARGS", "LOCAL_DISKS", "MOUNT_BPF_FS",
		"PAUSE_CONTAINER_ACCOUNT", "PAUSE_CONTAINER_VERSION", "SERVICE_IPV4_CIDR", "SERVICE_IPV6_CIDR", "USE_MAX_PODS",
	}
	assert.Equal(t, want, a)
}

// As with ${NAME:-default} in the script, a flag sets its variable, and an empty value
// means the default.
func TestFlagsOverrideTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		args        []string
		environment map[string]string
		want        func(*Arguments)
	}{
		"a flag": {
			[]string{"c", "--use-max-pods", "true", "--kubelet-extra-args=--v=2"},
			map[string]string{"USE_MAX_PODS": "false", "KUBELET_EXTRA_ARGS": "--v=9"},
			func(a *Arguments) { a.KubeletExtraArgs = "--v=2" },
		},
		"an empty flag": {
			[]string{"c", "--use-max-pods", "", "--pause-container-version", "", "--kubelet-extra-args", ""},
			map[string]string{"USE_MAX_PODS": "false", "PAUSE_CONTAINER_VERSION": "3.1",
				"KUBELET_EXTRA_ARGS": "--v=9"}, func(*Arguments) {},
		},
		"empty variables": {
			[]string{"c"}, map[string]string{"USE_MAX_PODS": "", "API_RETRY_ATTEMPTS": "", "MOUNT_BPF_FS": "",
				"ENABLE_LOCAL_OUTPOST": ""}, func(*Arguments) {},
		},
		"a flag and another variable": {
			[]string{"c", "--use-max-pods", "true"},
			map[string]string{"USE_MAX_PODS": "false", "DNS_CLUSTER_IP": "10.1.0.10"},
			func(a *Arguments) { a.DNS, a.Variables = []string{"10.1.0.10"}, []string{"DNS_CLUSTER_IP"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Read(c.args, func(name string) string { return c.environment[name] })
			require.NoError(t, err)
			want := New()
			want.Cluster = "c"
			c.want(want)
			assert.Equal(t, want, a)
		})
	}
}

// systemd joins lines that end in a backslash, so the script's drop-in may contain such
// lines.
func TestContinuationLinesAreJoined(t *testing.T) {
	a, err := Read([]string{"c", "--kubelet-extra-args", "--node-labels=a=b \\\n  --v=2"}, nil)
	require.NoError(t, err)
	assert.Empty(t, a.Warnings)
	assert.Equal(t, "--node-labels=a=b    --v=2", a.KubeletExtraArgs)
}

func FuzzParse(f *testing.F) {
	f.Add("c\x00--kubelet-extra-args\x00--v=2")
	f.Add("--b64-cluster-ca\x00<\x00c\x00--dns-cluster-ip=1.2.3.4,::1")
	f.Add("c\n\x00--kubelet-extra-args\x00--v=\x0b\\\x00--cluster-id=\x1b")
	f.Add("c\x00--dns-cluster-ip\x00fe80::1%a\nb\x00--apiserver-endpoint\x00https://a\u2028b")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, "\x00")
		lenient, lenientErr := Read(slices.Clone(args), func(string) string { return strings.TrimLeft(args[0], "c") })
		a, err := Parse(slices.Clone(args))
		if err == nil && lenientErr == nil {
			assert.Equal(t, a.Cluster, lenient.Cluster)
		}
		if err != nil {
			return
		}
		assert.NotEmpty(t, a.Cluster)
		assert.Equal(t, a, parsed(t, args))
		_ = a.Validate() // must not panic
	})
}

func parsed(t *testing.T, args []string) *Arguments {
	t.Helper()
	a, err := Parse(args)
	require.NoError(t, err)
	return a
}
