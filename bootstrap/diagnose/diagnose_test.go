package diagnose

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lines are what real machines said: a node captured and refused, this project's own joins of
// dirty images, and issues of the programs.
var lines = map[string][]string{
	"captured-node": {
		"former-node: stop kubelet.service (it runs as another node)",
		"former-node: remove /var/lib/kubelet/pki (it is of the cluster at https://CE02.yl4.cn-north-1.eks.amazonaws.com.cn)",
	},
	"template": {
		`E1120 20:11:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://MASTER_ENDPOINT/api/v1/nodes\": dial tcp: lookup MASTER_ENDPOINT on 10.0.0.2:53: server misbehaving" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
	},
	"node-config": {
		"eksnode: checking the NodeConfig:",
		"spec.cluster.cidr: is missing; `aws eks describe-cluster` tells it",
		"eksnode: reading the NodeConfig: imds://user-data: part 1 of type application/node.eks.aws: line 6: spec.kubelets: unknown field; did you mean kubelet?",
	},
	"arguments": {"eksnode: bootstrap.sh: unknown flag --kubelet-args; did you mean --kubelet-extra-args?"},
	"metadata": {
		"eksnode: asking the instance metadata service for user-data: gave up after 12 attempts: the token: the answer is 403 Forbidden; the metadata service is off: set the instance's metadata options to http-endpoint=enabled",
	},
	"clock": {
		`E0717 03:27:06.676922   23008 reflector.go:147] k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.Node: Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2023-01-01T00:00:12Z is before 2026-07-01T10:00:00Z`,
		"eksnode: ec2:DescribeInstances: AuthFailure: AWS was not able to validate the provided access credentials (401); is the machine's clock right?",
	},
	"dns": {
		`E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes\": dial tcp: lookup ABC.gr7.eu-west-1.eks.amazonaws.com on 10.0.0.2:53: no such host" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
		`Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/version": dial tcp: lookup ABC.gr7.eu-west-1.eks.amazonaws.com: i/o timeout`,
	},
	"blocked": {
		`E0610 17:39:25.902673    1980 kubelet_node_status.go:96] "Unable to register node with API server" err="Post \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes\": dial tcp 10.0.3.17:443: i/o timeout" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
		`err="Get \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/apis/storage.k8s.io/v1/csinodes/a\": net/http: TLS handshake timeout"`,
		"eksnode: describing the cluster c: eks:DescribeCluster: gave up after 4 attempts: https://eks.eu-west-1.amazonaws.com: no answer within 15s; the node needs a way to it: a NAT gateway, an endpoint in its VPC or a proxy",
	},
	"other-ca": {
		`E1120 20:11:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://10.99.0.1:6443/api/v1/nodes\": tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of \"crypto/rsa: verification error\" while trying to verify candidate authority certificate \"kubernetes\")" node="a"`,
	},
	"ca-file": {
		`E1120 20:11:13.325154   11577 run.go:72] "command failed" err="failed to construct kubelet dependencies: unable to load client CA file /etc/kubernetes/pki/ca.crt: open /etc/kubernetes/pki/ca.crt: no such file or directory"`,
	},
	"credentials": {
		`E1120 20:11:13.325154   11577 reflector.go:158] "Unhandled Error" err="Failed to watch *v1.Service: Get \"https://a/api/v1/services\": getting credentials: exec: executable /usr/bin/aws-iam-authenticator not found`,
		"eksnode: getting the instance role's credentials: gave up after 12 attempts: the answer is 404 Not Found; the instance needs an instance profile with the node's role",
	},
	"other-node": {
		`E0217 19:05:29.196049    1140 kubelet_node_status.go:93] "Unable to register node with API server" err="nodes \"monitor1\" is forbidden: node \"localhost.localdomain\" is not allowed to modify node \"monitor1\"" node="monitor1"`,
		`nodes "ip-10-0-9-9.eu-west-1.compute.internal" is forbidden: User "system:node:ip-10-0-1-2.eu-west-1.compute.internal" cannot get resource "nodes" in API group "" at the cluster scope: node "ip-10-0-1-2.eu-west-1.compute.internal" cannot read "ip-10-0-9-9.eu-west-1.compute.internal", only its own Node object`,
	},
	"role-groups": {
		`E0609 08:37:42.146757  835105 kubelet_node_status.go:94] "Unable to register node with API server" err="nodes is forbidden: User \"system:anonymous\" cannot create resource \"nodes\" in API group \"\" at the cluster scope" node="a"`,
	},
	"unauthorized": {
		`2023-04-19T15:10:13Z kubelet-eks.daemon[11577]: E0419 15:10:13.325154   11577 event.go:267] Server rejected event '&v1.Event{TypeMeta:v1.TypeMeta{Kind:"", APIVersion:""}, ObjectMeta:v1.ObjectMeta{Name:"ip-10-0-1-249.cn-northwest-1.compute.internal.17575e9c08aefd8d", GenerateName:"", Namespace:"default", SelfLink:"", UID:"", ResourceVersion:"", Generation:0, CreationTimestamp:time.Date(1, time.January, 1, 0, 0, 0, 0, time.UTC), DeletionTimestamp:<nil>, DeletionGracePeriodSeconds:(*int64)(nil), Labels:map[string]string(nil)}, Reason:"NodeHasNoDiskPressure", Message:"Node ip-10-0-1-249.cn-northwest-1.compute.internal status is now: NodeHasNoDiskPressure", ReportingController:"", ReportingInstance:""}': 'Unauthorized' (will not retry!)`,
		`E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"`,
		`"Failed to ensure lease exists, will retry" err="Unauthorized" interval="7s"`,
	},
	"version-skew": {
		`E0419 15:10:13.325154   11577 reflector.go:158] "Unhandled Error" err="k8s.io/client-go/informers/factory.go:160: Failed to watch *v1.DeviceTaint: failed to list: the server could not find the requested resource"`,
	},
	"kubelet-flags": {
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to parse kubelet flag: invalid argument \"taint1=true\" for \"--register-with-taints\" flag: taint1=true, invalid taint"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to parse kubelet flag: unknown flag: --container-runtime"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to load kubelet config file, path: /etc/kubernetes/kubelet/config.json, error: failed to load Kubelet config file"`,
	},
	"cgroup-driver": {
		`E0511 02:08:20.553230    4019 remote_runtime.go:176] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got \"/kubepods/besteffort/pod1/2\" instead: unknown"`,
	},
	"cgroup-v1": {
		`E1120 20:11:13.325154   11577 run.go:72] "command failed" err="failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release"`,
	},
	"kernel-settings": {
		`Nov 17 13:35:47 ma kubelet[1347]: E1117 13:35:47.730947    1347 kubelet.go:1688] "Failed to start ContainerManager" err="[invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0, invalid kernel flag: kernel/panic, expected value: 10, actual value: 0, invalid kernel flag: kernel/panic_on_oops, expected value: 1, actual value: 0]"`,
	},
	"swap": {
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false. /proc/swaps contained: [Filename]"`,
	},
	"checkpoint": {
		`E0717 03:27:06.676922   23008 cpu_manager.go:194] [cpumanager] could not initialize checkpoint manager: could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet, please drain node and remove policy state file`,
		`E1120 20:11:13.325154   11577 kubelet.go:1688] "Failed to start ContainerManager" err="start cpu manager error: current set of available CPUs \"0-1\" doesn't match with CPUs in state \"0-3\""`,
		`E1120 20:11:13.325154   11577 run.go:72] "command failed" err="failed to run Kubelet: could not initialize checkpoint manager: checkpoint is corrupted, please drain node and remove policy state file"`,
	},
	"disk-full": {
		`time="2026-07-01T10:00:00.000000000Z" level=error msg="PullImage \"a:b\" failed" error="failed to pull and unpack image \"a:b\": failed to extract layer sha256:0: write /var/lib/containerd/x: no space left on device"`,
		`W0419 15:10:13.325154   11577 eviction_manager.go:360] "Eviction manager: attempting to reclaim" resourceName="ephemeral-storage"; attempting to reclaim ephemeral-storage`,
	},
	"pause-image": {
		`E0419 15:10:13.325154   11577 kuberuntime_manager.go:1170] "CreatePodSandbox for pod failed" err="rpc error: code = Unknown desc = failed to get sandbox image \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5\": failed to pull image \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5\": unexpected status from HEAD request: 401 Unauthorized" pod="kube-system/aws-node-abcde"`,
		`failed to get sandbox image "localhost/kubernetes/pause:latest": failed to resolve reference "localhost/kubernetes/pause:latest"`,
	},
	"containerd": {
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory\""`,
		`rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService`,
	},
	"templates": {
		`sed: can't read /var/lib/kubelet/kubeconfig: No such file or directory`,
		`/var/lib/cloud/instance/scripts/part-001: line 3: /etc/eks/bootstrap.sh: No such file or directory`,
	},
	"cluster-name": {
		`An error occurred (ResourceNotFoundException) when calling the DescribeCluster operation: No cluster found for name: my-clustr.`,
		"eksnode: describing the cluster c: eks:DescribeCluster: ResourceNotFoundException: No cluster found for name: c. (404)",
	},
	"permissions": {
		`An error occurred (AccessDeniedException) when calling the DescribeCluster operation: User: arn:aws:sts::123456789012:assumed-role/node/i-0123456789abcdef0 is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:123456789012:cluster/c`,
		`api error UnauthorizedOperation: You are not authorized to perform this operation.`,
	},
	"kubelet-settings": {
		`E1121 14:20:11.325154     577 run.go:72] "command failed" err="failed to validate kubelet configuration, error: invalid configuration: can't use reservedSystemCPUs (--reserved-cpus) with systemReservedCgroup (--system-reserved-cgroup) or kubeReservedCgroup (--kube-reserved-cgroup), path: &TypeMeta{Kind:,APIVersion:,}"`,
	},
	"cni-config": {
		`E1121 14:20:11.325154     577 log.go:32] "RunPodSandbox from runtime service failed" err="rpc error: code = Unknown desc = failed to setup network for sandbox \"6a61\": plugin type=\"bridge\" failed (add): failed to find plugin \"gone\" in path [/opt/cni/bin]"`,
		`failed to find plugin "aws-cni" in path [/opt/cni/bin]`,
	},
	"registry": {
		`E0419 15:10:13.325154   11577 log.go:32] "PullImage from image service failed" err="rpc error: code = Unknown desc = failed to pull and unpack image \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.20.4\": failed to resolve reference \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/amazon-k8s-cni:v1.20.4\": unexpected status from HEAD request to https://602401143452.dkr.ecr.eu-west-1.amazonaws.com/v2/amazon-k8s-cni/manifests/v1.20.4: 403 Forbidden" image="a"`,
		`pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials`,
	},
	"network-plugin": {
		`E0419 15:10:13.325154   11577 kubelet.go:2900] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"`,
		`E0419 15:10:13.325154   11577 kubelet.go:2900] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: no networks found in /etc/cni/net.d"`,
	},
	"addresses": {
		`failed to setup network for sandbox "6a61": plugin type="host-local" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.254`,
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`,
	},
	"serving-certificate": {
		`I0419 15:10:13.325154   11577 log.go:245] http: TLS handshake error from 10.0.3.17:52334: no serving certificate available for the kubelet`,
		`Error from server: Get "https://10.0.1.2:10250/containerLogs/default/a/a": remote error: tls: internal error`,
	},
	"units": {
		"eksnode: services: starting kubelet.service: systemd says that it is not-found; the image must have it",
		"Failed to start kubelet.service: Unit kubelet.service not found.",
	},
}

func TestEveryRuleKnowsRealLines(t *testing.T) {
	for _, r := range Rules() {
		t.Run(r.ID, func(t *testing.T) {
			require.NotEmpty(t, lines[r.ID], "the rule has no line of its own")
			for _, line := range lines[r.ID] {
				found, err := Logs(Log{"kubelet", strings.NewReader("I0419 15:10:12.000000 an ordinary line\n" + line + "\n")})
				require.NoError(t, err)
				var ids []string
				for _, f := range found {
					ids = append(ids, f.Rule.ID)
					assert.Equal(t, 1, f.Count)
				}
				assert.Contains(t, ids, r.ID, line)
				for _, id := range ids {
					assert.True(t, id == r.ID || together[r.ID] == id, "%s is found too, in: %s", id, line)
				}
			}
		})
	}
	assert.Len(t, lines, len(Rules()))
}

// together are rules that rightly find something in another one's line.
var together = map[string]string{
	"template": "dns", "metadata": "", "pause-image": "",
}

func TestTheTableIsWhole(t *testing.T) {
	ids := map[string]bool{}
	for _, r := range Rules() {
		assert.False(t, ids[r.ID], r.ID)
		ids[r.ID] = true
		assert.NotEmpty(t, r.Cause, r.ID)
		assert.NotEmpty(t, r.Remedy, r.ID)
	}
	for _, r := range Rules() {
		for _, other := range r.Explains {
			assert.True(t, ids[other], "%s explains %s, which is no rule", r.ID, other)
		}
	}
}

// What the matrix of leftovers saw in the logs of nodes that did not join, or
// whose pods did not run, is traced to its cause.
func TestWhatLeftoversCauseIsFound(t *testing.T) {
	text, err := os.ReadFile("../../docs/generate/leftovers.json")
	require.NoError(t, err)
	var records []struct{ Rule, Result, Message string }
	require.NoError(t, json.Unmarshal(text, &records))
	want := map[string][]string{
		"everything": {"unauthorized", "other-node"}, "kubelet-manager-state": {"checkpoint"}, "kubelet-drop-ins": {"kubelet-settings"},
		"kubelet-kubeconfig": {"other-ca", "templates"}, "bootstrap-units": {"other-node"}, "cni-state": {"addresses"}, "cni-config": {"cni-config"},
		"kubelet-checkpoints": {"checkpoint"},
	}
	looked := 0
	for _, r := range records {
		said, pods := strings.CutPrefix(r.Message, "its pods do not run: ")
		if r.Result != "does not join" && !pods {
			continue // it is seen at the node's object, not in its logs
		}
		looked++
		found, err := Logs(Log{"kubelet", strings.NewReader(said)})
		require.NoError(t, err)
		require.Len(t, found, 1, "%s: %s", r.Rule, said)
		assert.Contains(t, want[r.Rule], found[0].Rule.ID, said)
	}
	assert.NotZero(t, looked)
}

// A node that joined says nothing that looks like a cause.
func TestAHealthyNodeHasNoFinding(t *testing.T) {
	found, err := Logs(Log{"kubelet", strings.NewReader(`I0419 15:10:10.000000   11577 server.go:1376] "Started kubelet"
I0419 15:10:11.000000   11577 kubelet_node_status.go:75] "Attempting to register node" node="ip-10-0-1-2.eu-west-1.compute.internal"
I0419 15:10:11.000000   11577 kubelet_node_status.go:78] "Successfully registered node" node="ip-10-0-1-2.eu-west-1.compute.internal"
former-node: nothing to do
configuration: write /etc/kubernetes/pki/ca.crt (the cluster's certificate authority)
services: run systemctl start kubelet.service (the node needs it)
`)})
	require.NoError(t, err)
	assert.Empty(t, found)
	var out bytes.Buffer
	require.NoError(t, Print(&out, found))
	assert.Equal(t, "no known cause was found; look at the kubelet's journal: journalctl --unit kubelet --boot\n", out.String())
}

func TestConsequencesComeLast(t *testing.T) {
	found, err := Logs(
		Log{"kubelet", strings.NewReader(strings.Repeat(lines["unauthorized"][1]+"\n", 5))},
		Log{"init", strings.NewReader(lines["captured-node"][1] + "\n")},
	)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, Print(&out, found))
	assert.Equal(t, `captured-node: this image was captured from a joined node: it brings another cluster's endpoint, certificates or state
  init:1: former-node: remove /var/lib/kubelet/pki (it is of the cluster at https://CE02.yl4.cn-north-1.eks.amazonaws.com.cn)
  remedy: run `+"`eksnode scrub`"+` before the image is captured; init has cleared away what it found on this node

unauthorized: the API server does not know who the node is: its role is not mapped, or its token is for another cluster
  it follows from captured-node
  kubelet:1: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  kubelet:2: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  kubelet:3: E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Unauthorized" node="ip-10-0-0-181.ec2.internal"
  and 2 lines more
  remedy: make an access entry of type EC2_LINUX for the node's role (not the profile), or map it in aws-auth without a path; the cluster's name in the user data must be the endpoint's; an image captured from a joined node needs `+"`eksnode scrub`"+`
`, out.String())
}

func TestLongLinesAreShownWhereTheyMatch(t *testing.T) {
	found, err := Logs(Log{"kubelet", strings.NewReader(lines["unauthorized"][0])})
	require.NoError(t, err)
	require.Len(t, found, 1)
	assert.Less(t, len(found[0].Evidence[0]), 400)
	assert.Contains(t, found[0].Evidence[0], "'Unauthorized' (will not retry!)")
}

func TestALogThatCannotBeReadIsNamed(t *testing.T) {
	found, err := Logs(Log{"kubelet", iotest.ErrReader(errors.New("gone"))}, Log{"init", strings.NewReader(lines["swap"][0])})
	assert.EqualError(t, err, "reading kubelet: gone")
	assert.Len(t, found, 1, "the others are read all the same")
}

func FuzzLogs(f *testing.F) {
	for _, all := range lines {
		f.Add(strings.Join(all, "\n"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		found, err := Logs(Log{"x", strings.NewReader(text)})
		require.NoError(t, err)
		require.NoError(t, Print(&bytes.Buffer{}, found))
	})
}
