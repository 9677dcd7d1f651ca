package diagnose

// What a kubelet logs when it has joined, when its node is ready, and when it has a
// serving certificate. Before that, much fails that needs no remedy.
const (
	joined    = `Successfully registered node`
	ready     = `just became ready|event="NodeReady"`
	certified = `Certificate rotation deadline determined|Certificate expiration is `
)

// Rules is the table of known causes, root causes before their consequences. The
// patterns come from the source code and logs of kubelet 1.24 to 1.36, containerd
// 1.6 to 2.3, runc, client-go and this program.
func Rules() []Rule {
	return []Rule{
		{
			ID:       "captured-node",
			Cause:    "this image was captured from a joined node: it contains another cluster's endpoint, certificates or state",
			Remedy:   "run `eksnode scrub` before the image is captured; init has removed the leftover state on this node",
			Lines:    []string{`leftover-state: (remove|stop) `},
			Explains: []string{"unauthorized", "other-ca", "other-node", "checkpoint"},
		},
		{
			ID:     "template",
			Cause:  "the kubelet started with a template that first boot has not filled in",
			Remedy: "first boot configured nothing: check eksnode-config.service and the user data; an image must not have the kubelet enabled",
			Until:  joined,
			Lines:  []string{`MASTER_ENDPOINT`},
		},
		{
			ID:     "contract",
			Cause:  "the user data calls bootstrap.sh, but Amazon's images of Amazon Linux 2023 do not have it",
			Remedy: "use a NodeConfig (`eksnode userdata render --family al2023` writes one), or an image made with `eksnode provision`, which supports both",
			Lines:  []string{`bootstrap\.sh has been removed from AL2023`},
		},
		{
			ID:     "node-config",
			Cause:  "the user data's NodeConfig is not valid",
			Remedy: "correct the named fields; `eksnode nodeadm config check --config-source file:///FILE` checks a file without a machine",
			Not:    `asking the instance metadata service`,
			Lines:  []string{`checking the NodeConfig:`, `spec\.[A-Za-z.\[\]0-9]+: (unknown field|is missing|must be|unknown value)`, `is not a NodeConfig \(`, `reading the NodeConfig: `},
		},
		{
			ID:     "arguments",
			Cause:  "the user data calls bootstrap.sh with invalid arguments",
			Remedy: "correct the call in the user data; `bootstrap.sh --help` lists the flags",
			Lines:  []string{`bootstrap\.sh: --[a-z0-9-]+ "`, `checking the arguments:`, `the cluster's name is missing`},
		},
		{
			ID:     "templates",
			Cause:  "bootstrap.sh fills in templates that the image does not have",
			Remedy: "make the image with `eksnode provision`; on Amazon Linux 2 `eksnode scrub` restores and keeps the templates",
			Lines: []string{
				`sed: can't read /(var/lib/kubelet|etc/containerd|etc/eks)/`, `(jq: error: Could not open file|jq: error \(at) /etc/kubernetes/kubelet/`,
				`cp: cannot stat '/etc/eks/`, `/etc/eks/bootstrap\.sh: (No such file or directory|not found|command not found)`,
			},
		},
		{
			ID:     "cluster-name",
			Cause:  "the node's region and account have no cluster of that name",
			Remedy: "`aws eks list-clusters` lists the names of the node's region; correct the user data",
			Lines:  []string{`No cluster found for name: `},
		},
		{
			ID:     "permissions",
			Cause:  "the node's role lacks a permission",
			Remedy: "attach AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and AmazonEKS_CNI_Policy to the node's role; `eksnode preflight --instance ID` checks all of them",
			Until:  joined,
			Lines:  []string{`is not authorized to perform: `, `UnauthorizedOperation`},
		},
		{
			ID:     "aws-api",
			Cause:  "the node cannot reach an AWS API: a route, an endpoint or a security group is missing",
			Remedy: "give the subnet a NAT gateway, or VPC endpoints for ec2, eks, sts, ecr.api, ecr.dkr and s3 with security groups that allow port 443 from the node, or name a proxy in spec.instance.environment",
			Until:  joined,
			Lines: []string{
				`retrying request (EC2|EKS)/`, `; the node needs a route to this address: `, `RequestError: send request failed`,
				`(Connect timeout on|Could not connect to the) endpoint URL: "https://(ec2|eks|sts)\.`, `https://(ec2|eks|sts|api\.ecr)\.[^ ]*: dial tcp [^ ]+ (i/o timeout|connect: )`,
			},
		},
		{
			ID:     "metadata",
			Cause:  "the instance metadata service does not answer",
			Remedy: "set the instance's metadata options to http-endpoint=enabled, and check the node's network",
			Until:  joined,
			Lines: []string{
				`asking the instance metadata service for `, `EC2MetadataRequestError`,
				`'http://(169\.254\.169\.254|\[fd00:ec2::254\])(:80)?/[^ ]*' failed`,
			},
			Explains: []string{"credentials"},
		},
		{
			ID:       "clock",
			Cause:    "the machine's clock is wrong",
			Remedy:   "let the time service reach 169.254.169.123 or another source, then restart the kubelet",
			Until:    joined,
			Lines:    []string{`certificate has expired or is not yet valid: current time`, `SignatureDoesNotMatch`, `Signature (expired|not yet current)`, `; check the machine's clock`},
			Explains: []string{"unauthorized", "credentials"},
		},
		{
			ID:     "dns",
			Cause:  "DNS does not resolve a name",
			Remedy: "turn on enableDnsSupport in the VPC, and for a private endpoint enableDnsHostnames too; check the DHCP options and spec.instance.network.nameservers",
			Until:  joined,
			Lines:  []string{`dial tcp: lookup [^ ]+( on [^ ]+)?: (no such host|i/o timeout|server misbehaving)`, `Temporary failure in name resolution`, `lookup [a-zA-Z0-9.-]+\.eks\.amazonaws\.com[^ ]*: no such host`},
		},
		{
			ID:     "blocked",
			Cause:  "the node cannot reach the API server: a security group, a route or a network ACL blocks the traffic",
			Remedy: "allow port 443 from the node to the cluster's security group, and port 10250 in the other direction; check the subnet's route (NAT gateway or private endpoint) and the endpoint's public access list",
			Until:  joined,
			Lines:  []string{`dial tcp [0-9.\[\]a-f:]+:443: (i/o timeout|connect: connection (refused|timed out)|connect: no route to host)`, `net/http: TLS handshake timeout`, `request canceled while waiting for connection`},
			Not:    `https://(ec2|eks|sts|api\.ecr)\.`,
		},
		{
			ID:     "other-ca",
			Cause:  "the authority in the node's ca.crt did not sign the API server's certificate: the certificate authority and the endpoint belong to different clusters, or a proxy intercepts TLS",
			Remedy: "take both from the same `aws eks describe-cluster`, run init again, and exclude *.eks.amazonaws.com from intercepting proxies",
			Until:  joined,
			Lines:  []string{`certificate signed by unknown authority`, `tls: failed to verify certificate: x509: certificate is valid for`},
		},
		{
			ID:     "ca-file",
			Cause:  "the cluster's certificate authority is missing or is not a certificate",
			Remedy: "set spec.cluster.certificateAuthority, or --b64-cluster-ca, as base64 of the PEM text, and run init again",
			Lines:  []string{`unable to load client CA file`, `unable to load root certificates`, `data does not contain any valid RSA or ECDSA certificates`},
		},
		{
			ID:     "kubeconfig",
			Cause:  "the kubeconfig's token command returns an API version that the kubelet does not support",
			Remedy: "run init again, or write client.authentication.k8s.io/v1beta1 in /var/lib/kubelet/kubeconfig; `eksnode scrub` corrects the template",
			Until:  joined,
			Lines:  []string{`exec plugin: invalid apiVersion`, `exec plugin is configured to use API version [^,]+, plugin returned version`},
		},
		{
			ID:     "credentials",
			Cause:  "the node has no credentials, or no program that makes a token",
			Remedy: "attach an instance profile with the node's role; install the kubeconfig's token command on the node",
			Until:  joined,
			Lines:  []string{`getting the (instance role's|node's) credentials:`, `NoCredentialProviders`, `Unable to locate credentials`, `getting credentials: exec: (executable|exec|fork)`},
		},
		{
			ID:     "region",
			Cause:  "an AWS CLI command has no region",
			Remedy: "the region comes from the metadata service: check that the service answers; in your own script pass --region, or set AWS_REGION in spec.instance.environment",
			Until:  joined,
			Lines:  []string{`You must specify a region`},
		},
		{
			ID:     "other-node",
			Cause:  "the node's name differs from the name that the authenticator gives the instance",
			Remedy: "the name must be EC2's private DNS name: remove --hostname-override from the kubelet's flags; check the VPC's DHCP options for a custom domain, and the username in aws-auth (system:node:{{EC2PrivateDNSName}}); an image captured from a joined node contains the old name and needs `eksnode scrub`",
			Until:  joined,
			Lines:  []string{`is not allowed to modify node`, `only its own Node object`, `can only access node lease with the same name as the requesting node`},
		},
		{
			ID:     "role-groups",
			Cause:  "the cluster accepts the node's role, but not as a role of nodes",
			Remedy: "map the role to the groups system:bootstrappers and system:nodes, or create an access entry of type EC2_LINUX",
			Not:    `only its own Node object|can only access node lease`,
			Until:  joined,
			Lines:  []string{`User \\*"(system:anonymous|[^"\\]*)\\*" cannot (create|get|list|watch|patch) resource \\*"(nodes|leases|services|csinodes|csidrivers|runtimeclasses)\\*"`},
		},
		{
			ID:     "unauthorized",
			Cause:  "the API server cannot identify the node: the node's role is not mapped, or its token is for another cluster",
			Remedy: "create an access entry of type EC2_LINUX for the node's role (not the profile), or map it in aws-auth without a path; the cluster's name and the endpoint in the user data must belong together; an image captured from a joined node needs `eksnode scrub`",
			Until:  joined,
			Lines:  []string{`err="Unauthorized"`, `'Unauthorized' \(will not retry!\)`, `: Unauthorized\b`, `You must be logged in to the server`, `the server has asked for the client to provide credentials`},
		},
		{
			ID:     "version-skew",
			Cause:  "the kubelet is newer than the control plane, or more than three minor versions older",
			Remedy: "use an image whose kubelet has the control plane's version or is up to three minor versions older",
			Lines:  []string{`the server could not find the requested resource`, `no kind \\*"[^"]*" is registered for version`},
		},
		{
			ID:     "kubelet-flags",
			Cause:  "the kubelet has a flag or a setting that its version does not support",
			Remedy: "remove the flag or setting from spec.kubelet or --kubelet-extra-args",
			Lines:  []string{`failed to parse kubelet flag: unknown flag`, `Error: unknown flag: --`, `invalid argument \\*"[^"]*" for \\*"--[a-z-]+\\*" flag`, `failed to load (the )?[kK]ubelet config file`, `unknown 'kubernetes\.io' or 'k8s\.io' labels specified`, `unrecognized feature gate`, `built-in cloud providers are disabled`},
		},
		{
			ID:     "kubelet-settings",
			Cause:  "settings of the kubelet contradict each other, or one has an invalid value",
			Remedy: "remove the named settings from spec.kubelet or --kubelet-extra-args; settings from an earlier first boot are in /etc/systemd/system/kubelet.service.d or /etc/kubernetes/kubelet: run `eksnode scrub` before the image is captured",
			Not:    `not run on a host using cgroup v1`,
			Lines:  []string{`failed to validate kubelet configuration`},
		},
		{
			ID:     "cgroup-driver",
			Cause:  "the kubelet and containerd use different cgroup drivers",
			Remedy: "set both to systemd: cgroupDriver in the kubelet's configuration, SystemdCgroup = true in containerd's; remove the other value from the user data",
			Lines:  []string{`expected cgroupsPath to be of format`, `kubelet cgroup driver: .* is different from`},
		},
		{
			ID:     "cgroup-v1",
			Cause:  "the machine has cgroup v1, and kubelet 1.35 and newer refuse it",
			Remedy: "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in spec.kubelet.config",
			Lines:  []string{`kubelet is configured to not run on a host using cgroup v1`},
		},
		{
			ID:     "kernel-settings",
			Cause:  "kernel settings differ from those that the kubelet demands",
			Remedy: "set kernel.panic=10, kernel.panic_on_oops=1 and vm.overcommit_memory=1 in /etc/sysctl.d",
			Lines:  []string{`[iI]nvalid kernel flag: `},
		},
		{
			ID:     "swap",
			Cause:  "swap is on",
			Remedy: "turn swap off permanently: swapoff --all, and remove swap from /etc/fstab and systemd's swap units",
			Lines:  []string{`running with swap on is not supported`},
		},
		{
			ID:     "checkpoint",
			Cause:  "the kubelet's saved state belongs to another policy or another machine",
			Remedy: "remove the named file below /var/lib/kubelet and restart the kubelet; run `eksnode scrub` before an image is captured",
			Lines:  []string{`differs from state checkpoint policy`, `doesn't match with CPUs in state`, `checkpoint is corrupted`, `could not restore state from checkpoint`, `the expected machine state is different from the real one`},
		},
		{
			ID:     "limits",
			Cause:  "the machine has too few file handles or inotify watches",
			Remedy: "raise fs.inotify.max_user_instances, fs.inotify.max_user_watches or fs.file-max in /etc/sysctl.d; `eksnode provision` sets the first two to 8192 and 524288",
			Lines:  []string{`too many open files`, `inotify[^:]*: no space left on device`},
		},
		{
			ID:       "disk-full",
			Cause:    "the disk is full",
			Remedy:   "use a larger root volume; `du -xsh /var/lib/* /var/log` shows what fills it",
			Not:      `inotify|fsnotify`,
			Lines:    []string{`no space left on device`, `to reclaim" resourceName="ephemeral-storage"`, `[aA]ttempting to reclaim ephemeral-storage`},
			Explains: []string{"pause-image", "checkpoint"},
		},
		{
			ID:     "pause-image",
			Cause:  "containerd has no pause image and cannot pull it, so no pod starts",
			Remedy: "run init again: init pulls the image with the node's credentials; the role needs AmazonEC2ContainerRegistryPullOnly, and the node a route to the registry (or a machine image that contains the pause image)",
			Lines:  []string{`failed to get sandbox image`, `pulling the pause image`},
		},
		{
			ID:       "credential-provider",
			Cause:    "the kubelet's image credential provider is missing or fails",
			Remedy:   "the image must have ecr-credential-provider in the folder of --image-credential-provider-bin-dir, where `eksnode provision` installs it, and the role must have AmazonEC2ContainerRegistryPullOnly",
			Lines:    []string{`plugin binary (executable|directory) \S+ did not exist`, `failed to validate credential provider config`, `error execing credential provider plugin`},
			Explains: []string{"registry"},
		},
		{
			ID:     "registry",
			Cause:  "a registry refuses the node, so images cannot be pulled",
			Remedy: "the role needs AmazonEC2ContainerRegistryPullOnly, the registry's account must allow the role, and the image must have ecr-credential-provider where the kubelet looks for it",
			Not:    `sandbox image`,
			Lines:  []string{`no basic auth credentials`, `pull access denied`, `unexpected status (code|from (HEAD|GET) request)[^"]*: 40[13]`},
		},
		{
			ID:     "containerd",
			Cause:  "containerd does not run or does not answer the kubelet",
			Remedy: "read containerd's journal: journalctl --unit containerd --boot; cri in `disabled_plugins` of containerd's configuration has the same effect",
			Until:  ready,
			Lines:  []string{`containerd\.sock: connect: (no such file or directory|connection refused)`, `unknown service runtime\.v1\.RuntimeService`, `containerd: (failed to load TOML|invalid (plugin )?config)`, `validate CRI v1 runtime API`},
		},
		{
			ID:     "network-plugin",
			Cause:  "pods have no network: the VPC CNI has not started on this node",
			Remedy: "read the log of the VPC CNI's pod: kubectl --namespace kube-system logs --selector k8s-app=aws-node; its role needs AmazonEKS_CNI_Policy, and the node a route to EC2's API",
			Until:  ready,
			Not:    `failed to load cni during init`, // containerd, which tries again
			Lines:  []string{`cni plugin not initialized`, `[nN]o networks found in /etc/cni`, `cni config uninitialized`},
		},
		{
			ID:     "cni-config",
			Cause:  "a configuration in /etc/cni/net.d names a plugin that the node does not have",
			Remedy: "remove the image's files from that folder, as `eksnode scrub` does before the capture; for 10-aws.conflist the pod aws-node installs the plugins: read its log",
			Lines:  []string{`failed to find plugin \\*"[^"]+"`},
		},
		{
			ID:     "kernel-modules",
			Cause:  "kernel modules that kube-proxy and the VPC CNI need are missing or not loaded, so pods have no network",
			Remedy: "install the package that contains them, such as kernel-modules-extra on Enterprise Linux 10, and make the image again: `eksnode audit --rules kernel-modules` lists them; name br_netfilter, nf_conntrack and overlay in /etc/modules-load.d",
			Lines: []string{
				`Extension \S+ revision \d+ not supported, missing kernel module`, `Couldn't load match .comment'`, `can't initialize ip6?tables table`,
				`Module (br_netfilter|nft_compat|ip_tables|ip6?table_\w+|xt_\w+) not found in directory`, `Failed to find module '(br_netfilter|nf_conntrack|overlay)'`,
				`open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory`,
			},
		},
		{
			ID:     "addresses",
			Cause:  "pods get no addresses",
			Remedy: "use a larger subnet, prefix delegation or custom networking; remove /var/lib/cni/networks when it came with the image",
			Lines:  []string{`no IP addresses available in range set`, `failed to assign an IP address to container`, `InsufficientFreeAddressesInSubnet`},
		},
		{
			ID:     "serving-certificate",
			Cause:  "the kubelet has no serving certificate, so logs and exec fail",
			Remedy: "the certificate request must be approved: kubectl get csr; remove /var/lib/kubelet/pki when it came with the image, and restart the kubelet",
			Until:  certified,
			Lines:  []string{`remote error: tls: internal error`, `no serving certificate available for the kubelet`},
		},
		{
			ID:     "may-not-run",
			Cause:  "systemd may not execute a service's program",
			Remedy: "with SELinux, restore the file's context: `restorecon -v FILE`, as `eksnode provision` does; otherwise check the file's mode, and noexec in `findmnt --target FILE`",
			Lines:  []string{`Failed at step EXEC spawning [^:]+: Permission denied`, `ocate executable [^:]+: Permission denied`},
		},
		{
			ID:     "architecture",
			Cause:  "a program is for another processor architecture",
			Remedy: "choose an instance type of the image's architecture, or make an image for this one; for a pod, use a container image for both architectures",
			Lines:  []string{`[eE]xec format error`},
		},
		{
			ID:     "ordering-cycle",
			Cause:  "systemd skipped first boot because of an ordering cycle: the unit waits for cloud-final.service, since cloud-init 24.4 cloud-final.service waits for multi-user.target, and multi-user.target waits for the unit",
			Remedy: "make the image with `eksnode provision`, whose units avoid the cycle; in nodeadm's own units, set DefaultDependencies=no",
			Until:  joined,
			Lines:  []string{`Job (nodeadm|eksnode)\S*\.service/start deleted to break ordering cycle`},
		},
		{
			ID:     "units",
			Cause:  "the image lacks a service that a node needs",
			Remedy: "make the image with `eksnode provision`",
			Lines:  []string{`systemd reports the unit as (not-found|masked)`, `Unit (kubelet|containerd)\.service (not found|could not be found)`, `Failed at step EXEC spawning [^:]+: No such file or directory`, `finding the version of (kubelet|containerd): `},
		},
		{
			ID:        "first-boot",
			Cause:     "first boot failed before the kubelet started",
			Remedy:    "read the journal of first boot: journalctl --boot --unit 'eksnode-*' --unit 'nodeadm-*' | eksnode diagnose -; `eksnode userdata check FILE` checks the user data",
			Until:     joined,
			Lines:     []string{`(Failed to start|Dependency failed for) .*(EKS Nodeadm (Config|Run)|Configure this node from its user data|Join this node to its cluster)`},
			Otherwise: true,
		},
	}
}
