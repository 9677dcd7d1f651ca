package diagnose

// lines has real log lines by rule: of a node from an unscrubbed image, of this
// project's own join tests, and from issues of the programs.
var lines = map[string][]string{
	"captured-node": {
		"leftover-state: stop kubelet.service (the kubelet runs as another node)",
		"leftover-state: remove /var/lib/kubelet/pki (the file belongs to the cluster at https://CE02.yl4.cn-north-1.eks.amazonaws.com.cn)",
	},
	"template": {
		`E1120 20:11:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://MASTER_ENDPOINT/api/v1/nodes\": dial tcp: lookup MASTER_ENDPOINT on 10.0.0.2:53: server misbehaving" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
	},
	"contract": {"ERROR: bootstrap.sh has been removed from AL2023-based EKS AMIs."},
	"node-config": {
		`eksnode: reading the NodeConfig: file:///etc/node.yaml: line 1: apiVersion v1, kind Pod is not a NodeConfig (node.eks.aws/v1alpha1)`,
		"eksnode: checking the NodeConfig:",
		"spec.cluster.cidr: is missing; `aws eks describe-cluster` shows the value",
		"eksnode: reading the NodeConfig: imds://user-data: part 1 of type application/node.eks.aws: line 6: spec.kubelets: unknown field; did you mean kubelet?",
	},
	"arguments": {
		`eksnode: checking the arguments:`,
		`the cluster's name is missing`,
		`eksnode: bootstrap.sh: --ip-family "ipv9": must be ipv4 or ipv6`},
	"metadata": {
		"eksnode: reading the NodeConfig: reading imds://user-data: asking the instance metadata service for user-data: gave up after 60 attempts: http://169.254.169.254: no answer within 2s; is this an EC2 instance, is its network up, and is the metadata service's hop limit enough for containers?",
		`2024-06-20 20:50:12,771 - url_helper.py[WARNING]: Calling 'http://169.254.169.254/latest/api/token' failed [0/120s]: request error [HTTPConnectionPool(host='169.254.169.254', port=80): Max retries exceeded with url: /latest/api/token (Caused by NewConnectionError('<urllib3.connection.HTTPConnection object at 0x7f40>: Failed to establish a new connection: [Errno 101] Network is unreachable'))]`,
		`EC2MetadataRequestError: failed to get EC2 instance identity document`,
		"eksnode: asking the instance metadata service for user-data: gave up after 12 attempts: the token: the answer is 403 Forbidden; the metadata service is off: set the instance's metadata options to http-endpoint=enabled",
		"eksnode: asking the instance metadata service for user-data: operation error ec2imds: GetUserData, failed to get API token, operation error ec2imds: getToken, exceeded maximum number of attempts, 60, http response error StatusCode: 403, request to EC2 IMDS failed; the metadata service is off: set the instance's metadata options to http-endpoint=enabled",
	},
	"region": {
		`Feb 06 10:01:28 ip-10-0-1-2.eu-central-1.compute.internal pull-sandbox-image.sh[3557]: You must specify a region. You can also configure your region by running "aws configure".`,
	},
	"first-boot": {
		"[FAILED] Failed to start nodeadm-co.service - EKS Nodeadm Config.",
		"[DEPEND] Dependency failed for noderun.service - EKS Nodeadm Run.",
		"[\x1b[0;1;31mFAILED\x1b[0m] Failed to start \x1b[0;1;39meksnode-co…0m - Configure this node from its user data.",
		"systemd[1]: Failed to start Join this node to its cluster.",
	},
	"clock": {
		`An error occurred (SignatureDoesNotMatch) when calling the DescribeCluster operation: Signature expired: 20260701T100000Z is now earlier than 20260701T101500Z`,
		`E0717 03:27:06.676922   23008 reflector.go:147] k8s.io/client-go/informers/factory.go:150: Failed to watch *v1.Node: Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes": tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time 2023-01-01T00:00:12Z is before 2026-07-01T10:00:00Z`,
		"eksnode: ec2:DescribeInstances: AuthFailure: AWS was not able to validate the provided access credentials (401); check the machine's clock",
	},
	"dns": {
		`Could not resolve host ABC.gr7.eu-west-1.eks.amazonaws.com: Temporary failure in name resolution`,
		`Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/api": lookup ABC.gr7.eu-west-1.eks.amazonaws.com: no such host`,
		`E0419 15:10:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes\": dial tcp: lookup ABC.gr7.eu-west-1.eks.amazonaws.com on 10.0.0.2:53: no such host" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
		`Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/version": dial tcp: lookup ABC.gr7.eu-west-1.eks.amazonaws.com: i/o timeout`,
	},
	"blocked": {
		`Get "https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)`,
		`E0610 17:39:25.902673    1980 kubelet_node_status.go:96] "Unable to register node with API server" err="Post \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes\": dial tcp 10.0.3.17:443: i/o timeout" node="ip-10-0-1-2.eu-west-1.compute.internal"`,
		`err="Get \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/apis/storage.k8s.io/v1/csinodes/a\": net/http: TLS handshake timeout"`,
		`E1118 06:26:55.123456       1 leaderelection.go:436] error retrieving resource lock: Get "https://172.20.0.1:443/apis/coordination.k8s.io/v1/namespaces/x/leases/y?timeout=5s": dial tcp 172.20.0.1:443: i/o timeout`,
	},
	"aws-api": {
		`error listing AWS instances: "RequestError: send request failed\ncaused by: Post https://ec2.us-west-2.amazonaws.com/: dial tcp 52.94.214.1:443: i/o timeout"`,
		"eksnode: describing the cluster c: eks:DescribeCluster: gave up after 4 attempts: https://eks.eu-west-1.amazonaws.com: no answer within 15s; the node needs a route to this address: a NAT gateway, an endpoint in its VPC or a proxy",
		`eksnode: describing the cluster c: operation error EKS: DescribeCluster, exceeded maximum number of attempts, 4, https response error StatusCode: 0, RequestID: , request send failed, Get "https://eks.eu-west-1.amazonaws.com/clusters/c": context deadline exceeded (Client.Timeout exceeded while awaiting headers); the node needs a route to this address: a NAT gateway, an endpoint in its VPC or a proxy`,
		"Feb 19 07:57:30 localhost nodeadm[2015]: SDK 2026/02/19 07:57:30 DEBUG retrying request EC2/DescribeInstances, attempt 2",
		`Connect timeout on endpoint URL: "https://eks.eu-west-1.amazonaws.com/clusters/c"`,
		`caused by: Post "https://ec2.us-west-2.amazonaws.com/": dial tcp 52.94.214.1:443: i/o timeout`,
	},
	"kubeconfig": {
		`error: exec plugin: invalid apiVersion "client.authentication.k8s.io/v1alpha1"`,
		"error: exec plugin is configured to use API version client.authentication.k8s.io/v1alpha1, plugin returned version client.authentication.k8s.io/v1beta1",
	},
	"limits": {
		"F0812 16:26:52.166979  111106 server.go:269] failed to run Kubelet: inotify_init: too many open files",
		`E0812 16:26:52.166979  111106 manager.go:1147] "Failed to create existing container" err="inotify_add_watch /sys/fs/cgroup/kubepods.slice: no space left on device"`,
	},
	"credential-provider": {
		`E1121 14:20:11.325154     577 run.go:72] "command failed" err="failed to run Kubelet: failed to validate credential provider config: [providers: Invalid value]"`,
		`E1121 14:20:11.325154     577 run.go:72] "command failed" err="failed to run Kubelet: failed to create kubelet: plugin binary executable /etc/eks/image-credential-provider/ecr-credential-provider did not exist"`,
		"E0609 21:47:05.229849  225990 plugin.go:198] Failed getting credential from external registry credential provider: error execing credential provider plugin ecr-credential-provider for image 123456789012.dkr.ecr.us-east-1.amazonaws.com/a: exit status 1",
	},
	"may-not-run": {
		"Feb 02 03:47:49 localhost (nodeadm)[1748]: nodeadm-config.service: Failed to locate executable /usr/bin/nodeadm: Permission denied",
		"systemd[20259]: kubelet.service: Failed at step EXEC spawning /home/kubernetes/bin/kubelet: Permission denied",
	},
	"architecture": {
		"systemd[1]: kubelet.service: Failed at step EXEC spawning /usr/bin/kubelet: Exec format error",
		"exec /pause: exec format error",
	},
	"other-ca": {
		`Get "https://10.0.0.1:443/api": tls: failed to verify certificate: x509: certificate is valid for 10.99.0.1, 127.0.0.1, not 10.0.0.1`,
		`E1120 20:11:13.325154   11577 kubelet_node_status.go:92] "Unable to register node with API server" err="Post \"https://10.99.0.1:6443/api/v1/nodes\": tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of \"crypto/rsa: verification error\" while trying to verify candidate authority certificate \"kubernetes\")" node="a"`,
	},
	"ca-file": {
		`unable to load root certificates: unable to parse bytes as PEM block`,
		`error: data does not contain any valid RSA or ECDSA certificates`,
		`E1120 20:11:13.325154   11577 run.go:72] "command failed" err="failed to construct kubelet dependencies: unable to load client CA file /etc/kubernetes/pki/ca.crt: open /etc/kubernetes/pki/ca.crt: no such file or directory"`,
	},
	"credentials": {
		`NoCredentialProviders: no valid providers in chain. Deprecated.`,
		`Unable to locate credentials. You can configure credentials by running "aws configure".`,
		`E1120 20:11:13.325154   11577 reflector.go:158] "Unhandled Error" err="Failed to watch *v1.Service: Get \"https://a/api/v1/services\": getting credentials: exec: executable /usr/bin/aws-iam-authenticator not found`,
		"eksnode: getting the instance role's credentials: gave up after 12 attempts: the answer is 404 Not Found; the instance needs an instance profile with the node's role",
		"eksnode: describing the cluster c: getting the node's credentials: failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata, exceeded maximum number of attempts, 12, http response error StatusCode: 404, request to EC2 IMDS failed; the instance needs an instance profile with the node's role",
	},
	"other-node": {
		`leases.coordination.k8s.io "a" is forbidden: User "system:node:b" cannot get resource "leases" in API group "coordination.k8s.io" in the namespace "kube-node-lease": can only access node lease with the same name as the requesting node`,
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
		"I0804 18:56:15.163680    2998 csi_plugin.go:913] Failed to contact API server when waiting for CSINode publishing: Unauthorized",
		`E0218 12:46:09.276627    4015 kubelet_node_status.go:103] Unable to register node "ip-10-0-1-229.us-west-2.compute.internal" with API server: Unauthorized`,
		`error: You must be logged in to the server (Unauthorized)`,
		`E0419 15:10:13.325154   11577 memcache.go:265] couldn't get current server API group list: the server has asked for the client to provide credentials`,
	},
	"version-skew": {
		`E0419 15:10:13.325154   11577 reflector.go:158] failed to list: no kind "RuntimeClass" is registered for version "node.k8s.io/v1beta1" in scheme "k8s.io/client-go/kubernetes/scheme/register.go:83"`,
		`E0419 15:10:13.325154   11577 reflector.go:158] "Unhandled Error" err="k8s.io/client-go/informers/factory.go:160: Failed to watch *v1.DeviceTaint: failed to list: the server could not find the requested resource"`,
	},
	"kubelet-flags": {
		`Error: unknown flag: --network-plugin`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [node-role.kubernetes.io/worker]"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to set feature gates from initial flags-based config: unrecognized feature gate: RotateKubeletServerCertificates"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to parse kubelet flag: invalid argument \"taint1=true\" for \"--register-with-taints\" flag: taint1=true, invalid taint"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to parse kubelet flag: unknown flag: --container-runtime"`,
		`E0508 19:05:36.802480    2488 run.go:74] "command failed" err="failed to run Kubelet: cloud provider \"aws\" was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider"`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to load kubelet config file, path: /etc/kubernetes/kubelet/config.json, error: failed to load Kubelet config file"`,
	},
	"cgroup-driver": {
		`failed to run Kubelet: misconfiguration: kubelet cgroup driver: "systemd" is different from docker cgroup driver: "cgroupfs"`,
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
		`E0419 15:10:13.325154   11577 memory_manager.go:177] "Could not initialize checkpoint manager" err="[memorymanager] the expected machine state is different from the real one"`,
		`E0717 03:27:06.676922   23008 cpu_manager.go:194] [cpumanager] could not initialize checkpoint manager: could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy "none", please drain this node and delete the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before restarting Kubelet, please drain node and remove policy state file`,
		`E1120 20:11:13.325154   11577 kubelet.go:1688] "Failed to start ContainerManager" err="start cpu manager error: current set of available CPUs \"0-1\" doesn't match with CPUs in state \"0-3\""`,
		`E1120 20:11:13.325154   11577 run.go:72] "command failed" err="failed to run Kubelet: could not initialize checkpoint manager: checkpoint is corrupted, please drain node and remove policy state file"`,
	},
	"disk-full": {
		`I0419 15:10:13.325154   11577 eviction_manager.go:387] "Eviction manager: must evict pod(s) to reclaim" resourceName="ephemeral-storage"`,
		`time="2026-07-01T10:00:00.000000000Z" level=error msg="PullImage \"a:b\" failed" error="failed to pull and unpack image \"a:b\": failed to extract layer sha256:0: write /var/lib/containerd/x: no space left on device"`,
		`W0419 15:10:13.325154   11577 eviction_manager.go:360] "Eviction manager: attempting to reclaim" resourceName="ephemeral-storage"; attempting to reclaim ephemeral-storage`,
	},
	"pause-image": {
		`eksnode: pulling the pause image, 3 attempts: exit status 1`,
		`E0419 15:10:13.325154   11577 kuberuntime_manager.go:1170] "CreatePodSandbox for pod failed" err="rpc error: code = Unknown desc = failed to get sandbox image \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5\": failed to pull image \"602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5\": unexpected status from HEAD request: 401 Unauthorized" pod="kube-system/aws-node-abcde"`,
		`failed to get sandbox image "localhost/kubernetes/pause:latest": failed to resolve reference "localhost/kubernetes/pause:latest"`,
	},
	"containerd": {
		`containerd: failed to load TOML: /etc/containerd/config.toml: (1, 2): unexpected token`,
		`E0419 15:10:13.325154   11577 run.go:74] "command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/containerd/containerd.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: no such file or directory\""`,
		`rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService`,
	},
	"templates": {
		`jq: error: Could not open file /etc/kubernetes/kubelet/kubelet-config.json: No such file or directory`,
		`cp: cannot stat '/etc/eks/containerd/containerd-config.toml': No such file or directory`,
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
		"W0726 08:18:06.517655    4537 cni.go:172] Unable to update cni config: No networks found in /etc/cni/net.d",
		"NetworkReady=false reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized",
		`E0419 15:10:13.325154   11577 kubelet.go:2900] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"`,
		`E0419 15:10:13.325154   11577 kubelet.go:2900] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: no networks found in /etc/cni/net.d"`,
	},
	"kernel-modules": {
		`E0820 08:11:13.325154     577 kubelet_network_linux.go:90] "Failed to set up mark-masq chain" err="error appending rule: exit status 4: Warning: Extension MARK revision 0 not supported, missing kernel module?\niptables v1.8.11 (nf_tables):  RULE_APPEND failed (No such file or directory): rule in chain KUBE-FIREWALL\n"`,
		"{\"level\":\"error\",\"msg\":\"Initialization failure: ipamd init: failed to set up host network: running [/usr/sbin/iptables -t nat -C POSTROUTING]: exit status 2: iptables v1.8.4 (nf_tables): Couldn't load match `comment':No such file or directory\"}",
		"{\"level\":\"error\",\"msg\":\"ipt.NewChain error for chain [AWS-SNAT-CHAIN-0]: exit status 3: iptables v1.8.4 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\"}",
		"modprobe: FATAL: Module br_netfilter not found in directory /lib/modules/6.12.0-211.26.1.el10_2.aarch64",
		`E0214 08:27:13.607103      11 server.go:135] "Error running ProxyServer" err="open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory"`,
		"systemd-modules-load[299]: Failed to find module 'br_netfilter'",
	},
	"addresses": {
		`InsufficientFreeAddressesInSubnet: The specified subnet does not have enough free addresses to satisfy the request.`,
		`failed to setup network for sandbox "6a61": plugin type="host-local" failed (add): failed to allocate for range 0: no IP addresses available in range set: 10.0.0.1-10.0.0.254`,
		`plugin type="aws-cni" name="aws-cni" failed (add): add cmd: failed to assign an IP address to container`,
	},
	"serving-certificate": {
		`I0419 15:10:13.325154   11577 log.go:245] http: TLS handshake error from 10.0.3.17:52334: no serving certificate available for the kubelet`,
		`Error from server: Get "https://10.0.1.2:10250/containerLogs/default/a/a": remote error: tls: internal error`,
	},
	"ordering-cycle": {
		"Aug 20 12:46:11 localhost systemd[1]: multi-user.target: Job nodeadm-run.service/start deleted to break ordering cycle starting with multi-user.target/start",
	},
	"units": {
		`eksnode: finding the version of kubelet: exec: "kubelet": executable file not found in $PATH; install the program on the search path of the image`,
		"eksnode: services: starting kubelet.service: systemd reports the unit as not-found; the image must have it",
		"Failed to start kubelet.service: Unit kubelet.service not found.",
		"systemd[1]: kubelet.service: Failed at step EXEC spawning /usr/bin/kubelet: No such file or directory",
	},
}
