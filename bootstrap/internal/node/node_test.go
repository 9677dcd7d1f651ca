package node

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
)

func modern() machine.Facts {
	return machine.Facts{Kubelet: machine.Version{Major: 1, Minor: 34}, Containerd: machine.Version{Major: 2, Minor: 1}, CPUs: 2, MemoryMiB: 8192, CredentialProvider: true}
}

func large() instance.Facts {
	return instance.Facts{ID: "i-1", Type: "m5.large", PrivateDNSName: "ip-10-0-1-2.eu-west-1.compute.internal", Limits: instance.Limits{ENIs: 3, IPsPerENI: 10}}
}

// of returns the NodeConfig of a kubelet.
func of(k nodeconfig.Kubelet) *nodeconfig.NodeConfig {
	return &nodeconfig.NodeConfig{Spec: nodeconfig.Spec{
		Cluster: nodeconfig.Cluster{Name: "a", APIServerEndpoint: "https://a", CertificateAuthority: []byte("a"), CIDR: "10.0.0.0/16"},
		Kubelet: k,
	}}
}

func parse(t *testing.T, args ...string) Call {
	t.Helper()
	a, err := arguments.Parse(append([]string{"my-cluster"}, args...))
	require.NoError(t, err)
	return Call{Arguments: a, Machine: modern(), Instance: large(), KubeletConfig: []byte("{}")}
}

func given(args ...string) []string {
	return append([]string{"--apiserver-endpoint", "https://a", "--b64-cluster-ca", "Y2E="}, args...)
}

func TestClusterDNS(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		described *Described
		networks  []string
		want      []string
	}{
		"given":                {given("--dns-cluster-ip", "1.2.3.4,1.2.3.5"), nil, nil, []string{"1.2.3.4", "1.2.3.5"}},
		"IPv4 network":         {given("--service-ipv4-cidr", "10.7.0.0/16"), nil, nil, []string{"10.7.0.10"}},
		"network, no prefix":   {given("--service-ipv4-cidr", "10.7.0.0"), nil, nil, []string{"10.7.0.10"}},
		"no network":           {given("--service-ipv4-cidr", "None"), nil, []string{"10.0.0.0/16"}, []string{"172.20.0.10"}},
		"IPv6, no prefix":      {given("--service-ipv6-cidr", "fd00:1234::"), nil, nil, []string{"fd00:1234::a"}},
		"IPv6 network":         {given("--service-ipv6-cidr", "fd00:1234::/108"), nil, nil, []string{"fd00:1234::a"}},
		"described":            {nil, &Described{IPv4CIDR: "192.168.0.0/16"}, nil, []string{"192.168.0.10"}},
		"described, IPv6":      {nil, &Described{IPFamily: "ipv6", IPv6CIDR: "fd12::/108"}, nil, []string{"fd12::a"}},
		"VPC in 10/8":          {given(), nil, []string{"192.168.0.0/16", "10.0.0.0/16"}, []string{"172.20.0.10"}},
		"VPC elsewhere":        {given(), nil, []string{"172.16.0.0/16", "100.64.0.0/16"}, []string{"10.100.0.10"}},
		"described, no family": {nil, &Described{}, []string{"10.0.0.0/16"}, []string{"172.20.0.10"}},
	} {
		t.Run(name, func(t *testing.T) {
			call := parse(t, c.args...)
			call.Instance.VPCNetworks = c.networks
			if c.described != nil {
				call.Take(*c.described)
			}
			n, _, err := call.Node()
			require.NoError(t, err)
			assert.Equal(t, c.want, n.Cluster.DNS)
		})
	}
	call := parse(t, given("--ip-family", "ipv6")...)
	_, _, err := call.Node()
	assert.EqualError(t, err, "an IPv6 cluster needs --service-ipv6-cidr or --dns-cluster-ip")
}

func TestOutpostNeedsAnID(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		described *Described
		outpost   bool
		id        string
	}{
		"set by a flag":       {given("--enable-local-outpost", "true", "--cluster-id", "x"), nil, true, "x"},
		"described":           {nil, &Described{Outpost: true, ID: "y"}, true, "y"},
		"described, given id": {[]string{"--cluster-id", "x"}, &Described{Outpost: true, ID: "y"}, true, "y"},
		"refused":             {[]string{"--enable-local-outpost", "false"}, &Described{Outpost: true, ID: "y"}, false, "y"},
	} {
		t.Run(name, func(t *testing.T) {
			call := parse(t, c.args...)
			if c.described != nil {
				call.Take(*c.described)
			}
			n, _, err := call.Node()
			require.NoError(t, err)
			assert.Equal(t, c.outpost, n.Cluster.Outpost)
			assert.Equal(t, c.id, n.Cluster.ID)
		})
	}
	_, _, err := parse(t, given("--enable-local-outpost", "true")...).Node()
	assert.EqualError(t, err, "--cluster-id is missing: a local cluster on an Outpost is identified by this ID")
}

func TestOnlyNeededFactsAreRequested(t *testing.T) {
	config := func(spec nodeconfig.Spec) *nodeconfig.NodeConfig { return &nodeconfig.NodeConfig{Spec: spec} }
	old := modern()
	old.Kubelet.Minor = 25
	own := modern()
	own.HasPause = true
	v4 := nodeconfig.Cluster{CIDR: "10.0.0.0/16"}
	for name, c := range map[string]struct {
		spec nodeconfig.Spec
		m    machine.Facts
		want instance.Wants
	}{
		"usual":           {nodeconfig.Spec{Cluster: v4}, modern(), instance.Wants{PrivateDNSName: true, Domain: true, Limits: true}},
		"old kubelet":     {nodeconfig.Spec{Cluster: v4}, old, instance.Wants{Domain: true, Limits: true}},
		"own pause image": {nodeconfig.Spec{Cluster: v4}, own, instance.Wants{PrivateDNSName: true, Limits: true}},
		"id as name":      {nodeconfig.Spec{Cluster: v4, FeatureGates: map[string]bool{nodeconfig.InstanceIDNodeName: true}}, own, instance.Wants{Limits: true}},
		"IPv6":            {nodeconfig.Spec{Cluster: nodeconfig.Cluster{CIDR: "fd00::/108"}}, own, instance.Wants{IPv6: true, PrivateDNSName: true, Limits: true}},
		"all pods known": {nodeconfig.Spec{Cluster: v4, Kubelet: nodeconfig.Kubelet{Config: nodeconfig.Document{
			"maxPods": int64(5), "kubeReserved": map[string]any{"memory": "1Gi"},
		}}}, own, instance.Wants{PrivateDNSName: true}},
		"an expression":         {nodeconfig.Spec{Cluster: v4, Kubelet: nodeconfig.Kubelet{MaxPodsExpression: "max_pods - 1"}}, own, instance.Wants{PrivateDNSName: true, Limits: true}},
		"an expression of size": {nodeconfig.Spec{Cluster: v4, Kubelet: nodeconfig.Kubelet{MaxPodsExpression: "vcpus * 10"}}, own, instance.Wants{PrivateDNSName: true, Limits: true, Size: true}},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.want, WantsOf(config(c.spec), c.m)) })
	}
	assert.Equal(t, instance.Wants{PrivateDNSName: true, VPCNetworks: true, Domain: true, Limits: true}, parse(t, given()...).Wants())
	assert.Equal(t, instance.Wants{IPv6: true, PrivateDNSName: true, Domain: true, Limits: true}, parse(t, given("--service-ipv6-cidr", "fd00::/108")...).Wants())
}

func TestMaxPodsExpressions(t *testing.T) {
	for expression, c := range map[string]struct {
		pods    int
		warning string
	}{
		"":                              {29, ""},
		"max_pods < 20 ? max_pods : 20": {20, ""},
		"max_pods - 29":                 {29, "maxPodsExpression has no effect on a m5.large, which takes 29 pods: the result is 0"},
		"max_pods / 0":                  {29, `maxPodsExpression has no effect on a m5.large, which takes 29 pods: evaluating "max_pods / 0" with default_enis=3, ips_per_eni=10, max_pods=29: line 1, column 10: division by zero`},
		"true":                          {29, `maxPodsExpression has no effect on a m5.large, which takes 29 pods: evaluating "true" with default_enis=3, ips_per_eni=10, max_pods=29: converting its result: type conversion error from 'bool' to 'int'`},
		"vcpus * 10":                    {29, "maxPodsExpression has no effect on a m5.large, which takes 29 pods: the size of the instance type is unknown"},
		"9000000000":                    {29, "maxPodsExpression has no effect on a m5.large, which takes 29 pods: the result is 9000000000"},
	} {
		n, warnings, err := FromNodeConfig(of(nodeconfig.Kubelet{MaxPodsExpression: expression}), large(), modern(), "p")
		require.NoError(t, err)
		assert.Equal(t, c.pods, n.Kubelet.MaxPods, expression)
		if c.warning == "" {
			assert.Empty(t, warnings)
		} else {
			assert.Equal(t, []string{c.warning}, warnings)
		}
	}
}

func TestUnsupportedFeaturesAreWarnings(t *testing.T) {
	config := of(nodeconfig.Kubelet{})
	config.Spec.FeatureGates = map[string]bool{nodeconfig.FastImagePull: true}
	m := modern()
	m.Kubelet.Minor, m.CgroupV1, m.CredentialProvider = 35, true, false
	n, warnings, err := FromNodeConfig(config, large(), m, "p")
	require.NoError(t, err)
	assert.False(t, n.Containerd.SOCI)
	assert.Equal(t, []string{
		"FastImagePull is off: the image has no soci-snapshotter.service",
		"the image has no /etc/eks/image-credential-provider/ecr-credential-provider: private images of ECR cannot be pulled",
		"the machine uses cgroup v1, but kubelet 1.35 and later needs cgroup v2; boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in spec.kubelet.config",
	}, warnings)
	m.SOCI = true
	_, warnings, err = FromNodeConfig(config, large(), m, "p")
	require.NoError(t, err)
	assert.Equal(t, "FastImagePull is off: fast pulls need 4 CPUs and 7168 MiB of memory, but the instance has 2 CPUs and 8192 MiB", warnings[0])
}

// First boot knows the kubelet, so it names what that one refuses.
func TestWhatTheKubeletRefusesIsAWarning(t *testing.T) {
	config := of(nodeconfig.Kubelet{
		Config: nodeconfig.Document{"shutdownGracePeriod": "20s"}, Flags: []string{"--v=x --max-pods 5"},
	})
	for minor, want := range map[int][]string{
		31: nil,
		33: {`the kubelet will not start: --v: "x" must be a number`},
		34: {
			`the kubelet will not start: --v: "x" must be a number`,
			"the kubelet will not start: shutdownGracePeriod: shutdownGracePeriodCriticalPods 30s must be at most shutdownGracePeriod 20s",
		},
	} {
		m := modern()
		m.Kubelet.Minor = minor
		_, warnings, err := FromNodeConfig(config, large(), m, "p")
		require.NoError(t, err)
		assert.Equal(t, want, warnings, minor)
	}
	for text, want := range map[string][]string{
		"--reserved-cpus=0": nil,
		"--image-gc-high-threshold=70": {
			"the kubelet will not start: imageGCHighThresholdPercent: imageGCLowThresholdPercent 80 must be less than imageGCHighThresholdPercent 70",
		},
	} {
		_, warnings, err := parse(t, given("--kubelet-extra-args", text)...).Node()
		require.NoError(t, err)
		assert.Equal(t, want, warnings)
	}
}

func TestTemplateMustBeAnObject(t *testing.T) {
	for text, want := range map[string]string{"": "reading the kubelet's template: unexpected end of JSON input", "null": "reading the kubelet's template: the file is not a JSON object"} {
		call := parse(t, given()...)
		call.KubeletConfig = []byte(text)
		_, _, err := call.Node()
		assert.EqualError(t, err, want)
	}
}
