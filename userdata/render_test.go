package userdata

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

const clusterPart = "cluster: {name: ex, endpoint: 'https://ABC.gr7.us-east-1.eks.amazonaws.com', certificateAuthority: YQ==, cidr: 10.100.0.0/16"

// describe returns the description of a cluster with more lines.
func describe(t *testing.T, more string) Node {
	t.Helper()
	n, err := ParseNode([]byte(withAuthority(clusterPart + "}\n" + more)))
	require.NoError(t, err)
	return n
}

func rendered(t *testing.T, family, more string) string {
	t.Helper()
	text := written(t, family, "", describe(t, more))
	return string(text)
}

// Descriptions can express the user data in tests/user-data of terraform-aws-eks and
// in pkg/providers/launchtemplate/testdata of Karpenter. Only the text differs.
func TestUserDataOfTerraformAndKarpenterCanBeRendered(t *testing.T) {
	t.Run("terraform-aws-eks: al2", func(t *testing.T) {
		text := rendered(t, "al2", "pre: [\"export FOO=bar\\n\"]\npost: [echo \"All done\"]\nkubeletArgs: [--node-labels=node.kubernetes.io/lifecycle=spot]\nbootstrap: {service-ipv4-cidr: 10.100.0.0/16, ip-family: ipv4}\n")
		assert.Contains(t, text, "export FOO=bar\n/etc/eks/bootstrap.sh 'ex'")
		assert.Contains(t, text, "--kubelet-extra-args '--node-labels=node.kubernetes.io/lifecycle=spot'")
		assert.Contains(t, text, "--ip-family 'ipv4' \\\n  --service-ipv4-cidr '10.100.0.0/16'\necho \"All done\"\n")
	})
	t.Run("terraform-aws-eks: al2023", func(t *testing.T) {
		text := rendered(t, "al2023", "nodeConfigs:\n- apiVersion: node.eks.aws/v1alpha1\n  kind: NodeConfig\n  spec: {kubelet: {config: {shutdownGracePeriod: 30s}}}\ncontainerd:\n  config: |\n    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n    discard_unpacked_layers = false\npost: [echo \"All done\"]\n")
		c, warnings, err := nodeconfig.Parse([]byte(text))
		require.NoError(t, err)
		assert.Empty(t, warnings)
		assert.Equal(t, nodeconfig.Document{"shutdownGracePeriod": "30s"}, c.Spec.Kubelet.Config)
		assert.Contains(t, string(c.Spec.Containerd.Config), "discard_unpacked_layers = false")
		assert.Contains(t, text, "Content-Type: text/x-shellscript\n\n#!/bin/bash\necho \"All done\"\n")
	})
	t.Run("terraform-aws-eks: Bottlerocket", func(t *testing.T) {
		n := describe(t, "settings: {kernel: {lockdown: integrity}}\n")
		n.Cluster.DNSAddresses = []string{"192.168.0.10", "169.254.20.10"}
		text := written(t, "bottlerocket", "", n)
		document, err := nodeconfig.ReadTOML(text)
		require.NoError(t, err)
		assert.Equal(t, "integrity", lookup(document, "settings", "kernel", "lockdown"))
		assert.Equal(t, []any{"192.168.0.10", "169.254.20.10"}, lookup(document, "settings", "kubernetes", "cluster-dns-ip"))
	})
	t.Run("Bottlerocket: the kubelet's DNS", func(t *testing.T) {
		for list, want := range map[string]any{"10.100.0.10": "10.100.0.10", "172.20.0.10": "172.20.0.10", "1.1.1.1, 2.2.2.2": []any{"1.1.1.1", "2.2.2.2"}} {
			document, err := nodeconfig.ReadTOML([]byte(rendered(t, "bottlerocket", "kubelet: {clusterDNS: ["+list+"]}\n")))
			require.NoError(t, err)
			assert.Equal(t, want, lookup(document, "settings", "kubernetes", "cluster-dns-ip"))
		}
	})
	t.Run("terraform-aws-eks: Windows", func(t *testing.T) {
		text := rendered(t, "windows", "pre: [\"[string]$Something = 'a'\"]\npost: [\"[string]$Something = 'b'\"]\n")
		assert.True(t, strings.HasPrefix(text, "<powershell>\n[string]$Something = 'a'\n& "))
		assert.True(t, strings.HasSuffix(text, "6>&1\n[string]$Something = 'b'\n</powershell>\n"))
	})
	const kubelet = "maxPods: 110\ntaints: ['karpenter.sh/unregistered:NoExecute']\nlabels: {testing/cluster: unspecified, karpenter.sh/capacity-type: spot}\n" +
		"kubelet:\n  podsPerCore: 2\n  kubeReserved: {memory: 50Mi}\n  systemReserved: {cpu: 100m}\n  evictionHard: {memory.available: 5%}\n  evictionSoft: {memory.available: 10%}\n" +
		"  evictionSoftGracePeriod: {memory.available: 1m30s}\n  evictionMaxPodGracePeriod: 300\n  imageGCHighThresholdPercent: 50\n  imageGCLowThresholdPercent: 10\n  cpuCFSQuota: false\n"
	t.Run("Karpenter: al2023", func(t *testing.T) {
		c, _, err := nodeconfig.Parse([]byte(rendered(t, "al2023", kubelet+"localStorage: {strategy: RAID0}\npre: [\"#!/bin/bash\\necho\"]\n")))
		require.NoError(t, err)
		assert.Equal(t, "RAID0", c.Spec.Instance.LocalStorage.Strategy)
		text, err := json.Marshal(c.Spec.Kubelet.Config)
		require.NoError(t, err)
		assert.JSONEq(t, `{"maxPods": 110, "podsPerCore": 2, "kubeReserved": {"memory": "50Mi"}, "systemReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"},
			"evictionSoft": {"memory.available": "10%"}, "evictionSoftGracePeriod": {"memory.available": "1m30s"}, "evictionMaxPodGracePeriod": 300,
			"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 10, "cpuCFSQuota": false}`, string(text))
	})
	t.Run("Karpenter: al2", func(t *testing.T) {
		text := rendered(t, "al2", kubelet+"localStorage: {strategy: raid0}\n")
		for _, want := range []string{
			"--use-max-pods 'false'", "--local-disks 'raid0'", "--max-pods=110", "--pods-per-core=2", "--kube-reserved=memory=50Mi", "--system-reserved=cpu=100m",
			"--eviction-hard=memory.available<5%", "--eviction-soft=memory.available<10%", "--eviction-soft-grace-period=memory.available=1m30s",
			"--eviction-max-pod-grace-period=300", "--image-gc-high-threshold=50", "--image-gc-low-threshold=10", "--cpu-cfs-quota=false",
		} {
			assert.Contains(t, text, want)
		}
	})
	t.Run("Karpenter: Bottlerocket", func(t *testing.T) {
		known := strings.Replace(kubelet, "  podsPerCore: 2\n", "", 1)
		text := rendered(t, "bottlerocket", known+"localStorage: {strategy: raid0}\n")
		document, err := nodeconfig.ReadTOML([]byte(text))
		require.NoError(t, err)
		assert.Equal(t, int64(50), lookup(document, "settings", "kubernetes", "image-gc-high-threshold-percent"))
		assert.Equal(t, map[string]any{"memory.available": "5%"}, lookup(document, "settings", "kubernetes", "eviction-hard"))
		assert.Equal(t, true, lookup(document, "settings", "bootstrap-commands", "000-mount-instance-storage", "essential"))
	})
	t.Run("Karpenter's class", func(t *testing.T) {
		n := describe(t, kubelet+"ami: ami-0123456789abcdef0\nrole: r\nlocalStorage: {strategy: raid0}\n")
		text := written(t, "karpenter", "al2023", n)
		assert.Contains(t, string(text), "  kubelet:\n    cpuCFSQuota: false\n")
		assert.Contains(t, string(text), "  instanceStorePolicy: RAID0\n")
		assert.Contains(t, string(text), "    maxPods: 110\n    podsPerCore: 2\n")
	})
}

// Every field of a NodeConfig can be described.
func TestEveryNodeConfigFieldIsRendered(t *testing.T) {
	text := rendered(t, "al2023", `maxPodsExpression: max_pods - 2
labels: {a: b}
kubelet: {clusterDomain: example.local}
containerd: {baseRuntimeSpec: {process: {noNewPrivileges: true}}}
environment: {containerd: {A: b c}}
proxy: {https: 'http://proxy:3128', noProxy: [169.254.169.254, .internal]}
network: {nameservers: [10.0.0.2], domains: [example.com]}
featureGates: {InstanceIdNodeName: true}
localStorage: {strategy: Mount, mountPath: /mnt/x, disabledMounts: [PodLogs]}
pre: ["echo ü"]
parts: [{contentType: text/cloud-config, content: "#cloud-config\npackages: [jq]"}]
`)
	c, _, err := nodeconfig.Parse([]byte(text))
	require.NoError(t, err)
	c.Spec.Cluster = nodeconfig.Cluster{}
	assert.Equal(t, nodeconfig.Spec{
		Containerd: nodeconfig.Containerd{BaseRuntimeSpec: nodeconfig.Document{"process": map[string]any{"noNewPrivileges": true}}},
		Instance: nodeconfig.Instance{
			LocalStorage: nodeconfig.LocalStorage{Strategy: "Mount", MountPath: "/mnt/x", DisabledMounts: []string{"PodLogs"}},
			Environment: map[string]map[string]string{
				"containerd": {"A": "b c"}, "default": {"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "169.254.169.254,.internal"},
			},
			Network: nodeconfig.Network{Nameservers: []string{"10.0.0.2"}, Domains: []string{"example.com"}},
		},
		Kubelet:      nodeconfig.Kubelet{Config: nodeconfig.Document{"clusterDomain": "example.local"}, Flags: nodeconfig.Flags{"--node-labels=a=b"}, MaxPodsExpression: "max_pods - 2"},
		FeatureGates: map[string]bool{"InstanceIdNodeName": true},
	}, c.Spec)
	assert.Contains(t, text, "Content-Type: text/x-shellscript; charset=\"utf-8\"\nContent-Transfer-Encoding: base64\n", "scripts with other characters than ASCII need base64, or cloud-init garbles them")
	assert.Contains(t, text, "Content-Type: text/cloud-config\n\n#cloud-config\npackages: [jq]\n")
}

func TestFilesAndScriptsForBootstrapSh(t *testing.T) {
	const more = "containerd: {config: \"version = 2\\n\"}\nenvironment: {kubelet: {A: 'b \"c\" 5%'}}\nproxy: {http: 'http://p'}\npre: [echo 1]\npost: [\"#!/usr/bin/python3\\nprint()\"]\n"
	al2 := rendered(t, "al2", more)
	for _, want := range []string{
		"cat > /etc/containerd/config.d/eksnode.toml <<'EOF'\nversion = 2\nEOF\n",
		"cat > /etc/systemd/system.conf.d/eksnode.conf <<'EOF'\n[Manager]\nDefaultEnvironment=\"HTTP_PROXY=http://p\"\nEOF\n",
		"cat > /etc/systemd/system/kubelet.service.d/eksnode.conf <<'EOF'\n[Service]\nEnvironment=\"A=b \\\"c\\\" 5%%\"\nEOF\nsystemctl daemon-reload\necho 1\n/etc/eks/bootstrap.sh",
		"Content-Type: text/x-shellscript\n\n#!/usr/bin/python3\nprint()\n",
	} {
		assert.Contains(t, al2, want)
	}
	ubuntu := rendered(t, "ubuntu", more)
	for _, want := range []string{"path: /etc/containerd/config.d/eksnode.toml", "path: /var/lib/eksnode/pre-1.sh", "- - systemctl\n    - daemon-reload\n", "- - /var/lib/eksnode/post-1.sh\n"} {
		assert.Contains(t, ubuntu, want)
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	var rows []struct{ Name, More, Want string }
	require.NoError(t, yaml.Unmarshal([]byte(testkit.Content(t, "testdata/contradictions.yaml")), &rows))
	for _, c := range rows {
		t.Run(c.Name, func(t *testing.T) {
			_, err := Render("al2", "", describe(t, c.More))
			if c.Want == "" {
				assert.NoError(t, err)
				return
			}
			assert.EqualError(t, err, c.Want)
		})
	}
	none := rendered(t, "al2", "kubelet: {clusterDomain: null}\n")
	assert.NotContains(t, none, "cluster-domain")
	own := node()
	own.Kubelet, own.Cluster.DNSAddresses = map[string]any{"clusterDNS": []string{"172.20.0.10"}}, []string{"172.20.0.10"}
	assert.Contains(t, string(written(t, "al2", "", own)), "--cluster-dns=172.20.0.10 ")
	own.Cluster.DNSAddresses = nil
	assert.Contains(t, string(written(t, "bottlerocket", "", own)), "cluster-dns-ip = \"172.20.0.10\"\n")
	assert.Contains(t, rendered(t, "bottlerocket", "kubelet: {clusterDNS: null, podPidsLimit: null}\n"), "cluster-dns-ip = \"10.100.0.10\"\n")
	for _, more := range []string{"kubelet: {reservedSystemCPUs: '0'}\n", "kubeletArgs: ['--v=2 --reserved-cpus=0']\n"} {
		text := written(t, "al2023", "", describe(t, more))
		assert.Contains(t, string(text), "kubeReservedCgroup: \"\"\n", "the kubelet refuses reserved CPUs with reserved cgroups")
	}
	const taint = "kubelet: {registerWithTaints: [{key: a, value: b, effect: NoSchedule}]}\n"
	assert.Contains(t, rendered(t, "al2", taint), "--kubelet-extra-args '--register-with-taints=a=b:NoSchedule'\n")
	_, err := Render("karpenter", "al2023", describe(t, taint+"ami: ami-0123456789abcdef0\nrole: r\n"))
	assert.EqualError(t, err, "writing user data for karpenter: taints: karpenter.sh/unregistered:NoExecute "+
		"contradicts kubelet.registerWithTaints: a=b:NoSchedule")
	n := describe(t, "maxPods: 10\nsettings: {kubernetes: {max-pods: 20}}\n")
	_, err = Render("bottlerocket", "", n)
	assert.EqualError(t, err, "writing user data for bottlerocket: settings.kubernetes.max-pods: 20 contradicts 10 of the rest of the description")
	_, err = Render("bottlerocket", "", describe(t, "kubelet: {clusterDNS: [172.20.0.10]}\nsettings: {kubernetes: {cluster-dns-ip: 10.100.0.10}}\n"))
	assert.EqualError(t, err, "writing user data for bottlerocket: settings.kubernetes.cluster-dns-ip: 10.100.0.10 contradicts 172.20.0.10 of the rest of the description")
	_, err = Render("bottlerocket", "", describe(t, "kubelet: {podsPerCore: 2}\n"))
	assert.EqualError(t, err, "writing user data for bottlerocket: kubelet.podsPerCore: Bottlerocket has no setting for it")
	_, err = Render("al2", "", describe(t, "featureGates: {FastImagePull: true}\nnetwork: {domains: [a]}\n"))
	assert.EqualError(t, err, "writing user data for al2: featureGates: bootstrap.sh has none\nnetwork: bootstrap.sh has none")
}

// Render either refuses a description or writes user data that passes Check and
// that first boot reads.
func FuzzRender(f *testing.F) {
	for _, more := range []string{
		"maxPods: 10\n", "labels: {a: b}\npre: [\"echo 'x\"]\n", "kubelet: {evictionHard: {memory.available: 5%}}\nkubeletArgs: ['--v=2']\n", "post: [\"--EKSNODE--\"]\n",
		"settings: {kernel: {lockdown: none}}\n", "bootstrap: {pause-container-version: '3.10'}\n", "environment: {a: {B: 'c\"d'}}\n", "containerd: {config: 'a = \"EOF\"'}\n",
		"localStorage: {strategy: RAID10}\n", "parts: [{contentType: text/cloud-config, content: a}]\n", "nodeConfigs: [{a: b}]\n",
	} {
		for i := range Families() {
			f.Add(more, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, more string, number uint8) {
		n, err := ParseNode([]byte(withAuthority(clusterPart + "}\n" + more)))
		if err != nil {
			return
		}
		n.AMI, n.Role, n.Region = "ami-0123456789abcdef0", "role", "eu-west-1"
		family := Families()[int(number)%len(Families())]
		carried := ""
		if family.Carries {
			carried = "al2023"
		}
		text, err := Render(family.ID, carried, n)
		if err != nil {
			return
		}
		r := checked(t, text, "")
		assert.False(t, r.Failed(), "%v", r.Problems)
		if family.ID == "al2023" {
			c, _, err := nodeconfig.Parse(text)
			require.NoError(t, err)
			assert.NoError(t, c.Validate())
		}
	})
}

// A report has the addresses of the cluster's DNS, whoever sets them.
func TestReportsHaveTheClusterDNS(t *testing.T) {
	const nodeConfig = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  kubelet:\n"
	for text, want := range map[string][]string{
		"#!/bin/bash\n/etc/eks/bootstrap.sh c --dns-cluster-ip 172.20.0.10\n":                                              {"172.20.0.10"},
		nodeConfig + "    config:\n      clusterDNS: [10.100.0.10]\n":                                                      {"10.100.0.10"},
		nodeConfig + "    config:\n      clusterDNS: [10.100.0.10]\n    flags: ['--cluster-dns=1.2.3.4,5.6.7.8']\n":        {"1.2.3.4", "5.6.7.8"},
		nodeConfig + "    flags: ['--v=2 --cluster-dns=9.9.9.9']\n":                                                        {"9.9.9.9"},
		nodeConfig + "    flags: ['--cluster_dns 9.9.9.9']\n":                                                              {"9.9.9.9"},
		"[settings.kubernetes]\ncluster-name = \"c\"\ncluster-dns-ip = \"10.100.0.10\"\n":                                  {"10.100.0.10"},
		"[settings.kubernetes]\ncluster-name = \"c\"\ncluster-dns-ip = [\"10.100.0.10\", \"fd00::a\"]\n":                   {"10.100.0.10", "fd00::a"},
		"#!/bin/bash\n/etc/eks/bootstrap.sh c --dns-cluster-ip 172.20.0.10 --kubelet-extra-args '--cluster-dns=9.9.9.9'\n": {"9.9.9.9"},
		"<powershell>\n& Start-EKSBootstrap.ps1 -EKSClusterName c -DNSClusterIP 172.20.0.10\n</powershell>\n":              {"172.20.0.10"},
		"#!/bin/bash\n/etc/eks/bootstrap.sh c\n":                                                                           nil,
	} {
		r, err := Check([]byte(text), "")
		require.NoError(t, err, text)
		assert.Equal(t, want, r.Cluster.DNSAddresses, text)
	}
	for flags, want := range map[string]string{
		"--service-ipv4-cidr None": "", "--service-ipv4-cidr 10.0.0.0/16": "10.0.0.0/16",
		"--service-ipv4-cidr 10.0.0.0/16 --service-ipv6-cidr fd00::/108": "fd00::/108",
	} {
		assert.Equal(t, want, checked(t, []byte(script+"/etc/eks/bootstrap.sh c "+flags+"\n"), "").Cluster.CIDR)
	}
}

// authority is a certificate authority in base64. Its key was deleted.
const authority = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJnakNDQVNlZ0F3SUJBZ0lVUC91RGRxQ1krSFJDWEJZV1p1djF5c3VNUllvd0NnWUlLb1pJemowRUF3SXcKRlRFVE1CRUdBMVVFQXd3S2EzVmlaWEp1WlhSbGN6QWdGdzB5TmpFeE1qSXlNVEE1TWpKYUdBOHlNVEkyTVRBeQpPVEl4TURreU1sb3dGVEVUTUJFR0ExVUVBd3dLYTNWaVpYSnVaWFJsY3pCWk1CTUdCeXFHU000OUFnRUdDQ3FHClNNNDlBd0VIQTBJQUJBRzU5cm95OC9TV2ZhZFkvanRDWXpWS2t4UXQ2N1VWOTNqejVSZFNKQldySldsbnF3Z1MKOEVsVFBvWTBRb0lCSm84MUMvRXl5THNsc3dQVCt4OUJoSCtqVXpCUk1CMEdBMVVkRGdRV0JCUXdFa3BtMHZKRgpYSnd6VkpicjlNamU1TDZITURBZkJnTlZIU01FR0RBV2dCUXdFa3BtMHZKRlhKd3pWSmJyOU1qZTVMNkhNREFQCkJnTlZIUk1CQWY4RUJUQURBUUgvTUFvR0NDcUdTTTQ5QkFNQ0Ewa0FNRVlDSVFEQ3MwdTh2aGNSZ0dWdFN4VTkKeThKMGxJSDRJY0U1UFdDbG9VRXcycHNyVUFJaEFONDNlZUh0U2M0N3g3VXprbEZ0cE1BT3JLdzV1SlFOdFNpRgpzWjhOdFRZeAotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="

// withAuthority replaces YQ== by the authority, so that tables stay readable.
func withAuthority(text string) string { return strings.ReplaceAll(text, "YQ==", authority) }
