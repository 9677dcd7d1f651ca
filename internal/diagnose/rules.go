package diagnose

// What a kubelet says when it has joined, when its node is ready, and when it has
// a certificate to serve with. Until then much fails that needs no remedy.
const (
	joined    = `Successfully registered node`
	ready     = `just became ready|event="NodeReady"`
	certified = `Certificate rotation deadline determined|Certificate expiration is `
)

// Rules is the table of known causes, the roots before what grows from them.
// The sources of the lines are the programs' own texts: kubelet 1.24 to 1.36,
// containerd 1.6 to 2.3, runc, client-go, this program.
func Rules() []Rule {
	return []Rule{
		{
			ID:       "captured-node",
			Cause:    "this image was captured from a joined node: it brings another cluster's endpoint, certificates or state",
			Remedy:   "run `eksnode scrub` before the image is captured; init has cleared away what it found on this node",
			Lines:    []string{`leftover-state: (remove|stop) `},
			Explains: []string{"unauthorized", "other-ca", "other-node", "checkpoint"},
		},
		{
			ID:     "template",
			Cause:  "the kubelet started with a template that no first boot has filled in",
			Remedy: "nothing configured this boot: look at eksnode-config.service and at the user data; a kubelet must not be enabled in an image",
			Until:  joined,
			Lines:  []string{`MASTER_ENDPOINT`},
		},
		{
			ID:     "contract",
			Cause:  "the user data calls bootstrap.sh, which Amazon's images of Amazon Linux 2023 do not have",
			Remedy: "give a NodeConfig, which `eksnode userdata render --family al2023` writes, or make the image with `eksnode provision`, which takes both",
			Lines:  []string{`bootstrap\.sh has been removed from AL2023`},
		},
		{
			ID:     "node-config",
			Cause:  "the user data's NodeConfig is not valid",
			Remedy: "mend the named fields; `eksnode nodeadm config check --config-source file:///FILE` says the same without a machine",
			Not:    `asking the instance metadata service`,
			Lines:  []string{`checking the NodeConfig:`, `spec\.[A-Za-z.\[\]0-9]+: (unknown field|is missing|must be|unknown value)`, `is not a NodeConfig \(`, `reading the NodeConfig: `},
		},
		{
			ID:     "arguments",
			Cause:  "bootstrap.sh was called with arguments that it does not take",
			Remedy: "mend the call in the user data; `bootstrap.sh --help` lists the flags",
			Lines:  []string{`bootstrap\.sh: (unknown flag|--[a-z0-9-]+ )`, `checking the arguments:`, `the cluster's name is missing`},
		},
		{
			ID:     "templates",
			Cause:  "bootstrap.sh fills templates in that the image does not have",
			Remedy: "make the image with `eksnode provision`; `eksnode scrub` puts the templates of Amazon Linux 2 back, and leaves them there",
			Lines: []string{
				`sed: can't read /(var/lib/kubelet|etc/containerd|etc/eks)/`, `(jq: error: Could not open file|jq: error \(at) /etc/kubernetes/kubelet/`,
				`cp: cannot stat '/etc/eks/`, `/etc/eks/bootstrap\.sh: (No such file or directory|not found|command not found)`,
			},
		},
		{
			ID:     "cluster-name",
			Cause:  "there is no cluster of that name in the node's region and account",
			Remedy: "`aws eks list-clusters` in the node's region tells the names; mend the user data",
			Lines:  []string{`No cluster found for name: `},
		},
		{
			ID:     "permissions",
			Cause:  "the node's role lacks a permission",
			Remedy: "attach AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly and AmazonEKS_CNI_Policy to the node's role; `eksnode preflight --instance ID` looks for all of them",
			Until:  joined,
			Lines:  []string{`is not authorized to perform: `, `UnauthorizedOperation`},
		},
		{
			ID:     "aws-api",
			Cause:  "an API of AWS cannot be reached: a route, an endpoint or a security group is missing",
			Remedy: "give the subnet a NAT gateway, or the VPC endpoints for ec2, eks, sts, ecr.api, ecr.dkr and s3 whose security groups let the node in on port 443, or name a proxy in spec.instance.environment",
			Until:  joined,
			Lines: []string{
				`retrying request (EC2|EKS)/`, `; the node needs a way to it: `, `RequestError: send request failed`,
				`(Connect timeout on|Could not connect to the) endpoint URL: "https://(ec2|eks|sts)\.`, `https://(ec2|eks|sts|api\.ecr)\.[^ ]*: dial tcp [^ ]+ (i/o timeout|connect: )`,
			},
		},
		{
			ID:     "metadata",
			Cause:  "the instance metadata service does not answer",
			Remedy: "set the instance's metadata options to http-endpoint=enabled, and look at the network of this boot",
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
			Remedy:   "make the time service reach 169.254.169.123 or another source, then restart the kubelet",
			Until:    joined,
			Lines:    []string{`certificate has expired or is not yet valid: current time`, `SignatureDoesNotMatch`, `Signature (expired|not yet current)`, `is the machine's clock right`},
			Explains: []string{"unauthorized", "credentials"},
		},
		{
			ID:     "dns",
			Cause:  "a name does not resolve",
			Remedy: "turn on enableDnsSupport in the VPC, and for a private endpoint enableDnsHostnames too; look at the DHCP options and at spec.instance.network.nameservers",
			Until:  joined,
			Lines:  []string{`dial tcp: lookup [^ ]+( on [^ ]+)?: (no such host|i/o timeout|server misbehaving)`, `Temporary failure in name resolution`, `lookup [a-zA-Z0-9.-]+\.eks\.amazonaws\.com[^ ]*: no such host`},
		},
		{
			ID:     "blocked",
			Cause:  "the API server cannot be reached: a security group, a route or a network ACL is in the way",
			Remedy: "let the node reach the cluster's security group on port 443 and be reached on 10250; check the subnet's route (NAT gateway or private endpoint) and the endpoint's public access list",
			Until:  joined,
			Lines:  []string{`dial tcp [0-9.\[\]a-f:]+:443: (i/o timeout|connect: connection (refused|timed out)|connect: no route to host)`, `net/http: TLS handshake timeout`, `request canceled while waiting for connection`},
			Not:    `https://(ec2|eks|sts|api\.ecr)\.`,
		},
		{
			ID:     "other-ca",
			Cause:  "the API server's certificate is of another authority than the node's ca.crt: the certificate authority and the endpoint belong to different clusters, or a proxy breaks TLS open",
			Remedy: "give both from the same `aws eks describe-cluster`, run init again, and keep *.eks.amazonaws.com out of inspecting proxies",
			Until:  joined,
			Lines:  []string{`certificate signed by unknown authority`, `tls: failed to verify certificate: x509: certificate is valid for`},
		},
		{
			ID:     "ca-file",
			Cause:  "the cluster's certificate authority is missing or no certificate",
			Remedy: "give spec.cluster.certificateAuthority, or --b64-cluster-ca, as base64 of the PEM text, and run init again",
			Lines:  []string{`unable to load client CA file`, `unable to load root certificates`, `data does not contain any valid RSA or ECDSA certificates`},
		},
		{
			ID:     "kubeconfig",
			Cause:  "the kubeconfig's command for tokens speaks another version than the kubelet knows",
			Remedy: "run init again, or write client.authentication.k8s.io/v1beta1 in /var/lib/kubelet/kubeconfig; `eksnode scrub` puts the template right",
			Until:  joined,
			Lines:  []string{`exec plugin: invalid apiVersion`, `exec plugin is configured to use API version [^,]+, plugin returned version`},
		},
		{
			ID:     "credentials",
			Cause:  "the node has no credentials, or no program to make a token with",
			Remedy: "attach an instance profile with the node's role; the kubeconfig's command must be on the node",
			Until:  joined,
			Lines:  []string{`getting the (instance role's|node's) credentials:`, `NoCredentialProviders`, `Unable to locate credentials`, `getting credentials: exec: (executable|exec|fork)`},
		},
		{
			ID:     "region",
			Cause:  "a command of the AWS CLI does not know its region",
			Remedy: "the metadata service tells it: look whether it answers; in a script of your own give --region, or AWS_REGION in spec.instance.environment",
			Until:  joined,
			Lines:  []string{`You must specify a region`},
		},
		{
			ID:     "other-node",
			Cause:  "the node's name is not the one that the authenticator maps the instance to",
			Remedy: "the name must be EC2's private DNS name: remove --hostname-override from the kubelet's flags; look for a custom domain in the VPC's DHCP options and at the username in aws-auth (system:node:{{EC2PrivateDNSName}}); an image captured from a joined node brings the old name, and needs `eksnode scrub`",
			Until:  joined,
			Lines:  []string{`is not allowed to modify node`, `only its own Node object`, `can only access node lease with the same name as the requesting node`},
		},
		{
			ID:     "role-groups",
			Cause:  "the cluster knows the node's role, but not as a node's",
			Remedy: "map the role to the groups system:bootstrappers and system:nodes, or make an access entry of type EC2_LINUX",
			Not:    `only its own Node object|can only access node lease`,
			Until:  joined,
			Lines:  []string{`User \\*"(system:anonymous|[^"\\]*)\\*" cannot (create|get|list|watch|patch) resource \\*"(nodes|leases|services|csinodes|csidrivers|runtimeclasses)\\*"`},
		},
		{
			ID:     "unauthorized",
			Cause:  "the API server does not know who the node is: its role is not mapped, or its token is for another cluster",
			Remedy: "make an access entry of type EC2_LINUX for the node's role (not the profile), or map it in aws-auth without a path; the cluster's name in the user data must be the endpoint's; an image captured from a joined node needs `eksnode scrub`",
			Until:  joined,
			Lines:  []string{`err="Unauthorized"`, `'Unauthorized' \(will not retry!\)`, `: Unauthorized\b`, `You must be logged in to the server`, `the server has asked for the client to provide credentials`},
		},
		{
			ID:     "version-skew",
			Cause:  "the kubelet is newer than the control plane, or more than three minor versions older",
			Remedy: "use an image whose kubelet has the control plane's version or up to three minor versions less",
			Lines:  []string{`the server could not find the requested resource`, `no kind \\*"[^"]*" is registered for version`},
		},
		{
			ID:     "kubelet-flags",
			Cause:  "the kubelet has a flag or a setting that its version does not know",
			Remedy: "take it out of spec.kubelet or --kubelet-extra-args",
			Lines:  []string{`failed to parse kubelet flag: unknown flag`, `Error: unknown flag: --`, `invalid argument \\*"[^"]*" for \\*"--[a-z-]+\\*" flag`, `failed to load (the )?[kK]ubelet config file`, `unknown 'kubernetes\.io' or 'k8s\.io' labels specified`, `unrecognized feature gate`, `built-in cloud providers are disabled`},
		},
		{
			ID:     "kubelet-settings",
			Cause:  "settings of the kubelet contradict each other, or one has a value that it does not take",
			Remedy: "take the named ones out of spec.kubelet or --kubelet-extra-args; what nobody wrote there was left by a former first boot in /etc/systemd/system/kubelet.service.d or /etc/kubernetes/kubelet: run `eksnode scrub` before the image is captured",
			Not:    `not run on a host using cgroup v1`,
			Lines:  []string{`failed to validate kubelet configuration`},
		},
		{
			ID:     "cgroup-driver",
			Cause:  "the kubelet and containerd use different cgroup drivers",
			Remedy: "both must say systemd: cgroupDriver in the kubelet's configuration, SystemdCgroup = true in containerd's; take the other out of the user data",
			Lines:  []string{`expected cgroupsPath to be of format`, `kubelet cgroup driver: .* is different from`},
		},
		{
			ID:     "cgroup-v1",
			Cause:  "the machine has cgroup v1, which kubelet 1.35 and newer refuses",
			Remedy: "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in spec.kubelet.config",
			Lines:  []string{`kubelet is configured to not run on a host using cgroup v1`},
		},
		{
			ID:     "kernel-settings",
			Cause:  "kernel settings differ from what the kubelet insists on",
			Remedy: "set kernel.panic=10, kernel.panic_on_oops=1 and vm.overcommit_memory=1 in /etc/sysctl.d",
			Lines:  []string{`[iI]nvalid kernel flag: `},
		},
		{
			ID:     "swap",
			Cause:  "swap is on",
			Remedy: "turn it off for good: swapoff --all, and take it out of /etc/fstab and systemd's swap units",
			Lines:  []string{`running with swap on is not supported`},
		},
		{
			ID:     "checkpoint",
			Cause:  "the kubelet's saved state is of another policy or another machine",
			Remedy: "remove the named file below /var/lib/kubelet and restart the kubelet; run `eksnode scrub` before an image is captured",
			Lines:  []string{`differs from state checkpoint policy`, `doesn't match with CPUs in state`, `checkpoint is corrupted`, `could not restore state from checkpoint`, `the expected machine state is different from the real one`},
		},
		{
			ID:     "limits",
			Cause:  "the machine has too few file handles or inotify watches",
			Remedy: "raise fs.inotify.max_user_instances, fs.inotify.max_user_watches or fs.file-max in /etc/sysctl.d; `eksnode provision` sets 8192 and 524288 for the first two",
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
			Remedy: "run init again, which pulls it with the node's credentials; the role needs AmazonEC2ContainerRegistryPullOnly and the node a way to the registry (or an image that carries it)",
			Lines:  []string{`failed to get sandbox image`, `pulling the pause image`},
		},
		{
			ID:       "credential-provider",
			Cause:    "the kubelet's program for registries' credentials is missing, or fails",
			Remedy:   "the image must have ecr-credential-provider where --image-credential-provider-bin-dir says, as `eksnode provision` installs it, and the role AmazonEC2ContainerRegistryPullOnly",
			Lines:    []string{`plugin binary (executable|directory) \S+ did not exist`, `failed to validate credential provider config`, `error execing credential provider plugin`},
			Explains: []string{"registry"},
		},
		{
			ID:     "registry",
			Cause:  "a registry refuses the node, so images cannot be pulled",
			Remedy: "the role needs AmazonEC2ContainerRegistryPullOnly, the registry's account must let it in, and the image must have ecr-credential-provider as the kubelet is told",
			Not:    `sandbox image`,
			Lines:  []string{`no basic auth credentials`, `pull access denied`, `unexpected status (code|from (HEAD|GET) request)[^"]*: 40[13]`},
		},
		{
			ID:     "containerd",
			Cause:  "containerd does not run or does not serve the kubelet",
			Remedy: "look at its journal: journalctl --unit containerd --boot; a `disabled_plugins` with cri in its configuration has the same effect",
			Until:  ready,
			Lines:  []string{`containerd\.sock: connect: (no such file or directory|connection refused)`, `unknown service runtime\.v1\.RuntimeService`, `containerd: (failed to load TOML|invalid (plugin )?config)`, `validate CRI v1 runtime API`},
		},
		{
			ID:     "network-plugin",
			Cause:  "pods have no network: the VPC CNI has not come up on this node",
			Remedy: "look at its pod, kubectl --namespace kube-system logs --selector k8s-app=aws-node; its role needs AmazonEKS_CNI_Policy, and the node a way to EC2's API",
			Until:  ready,
			Not:    `failed to load cni during init`, // containerd, which looks again
			Lines:  []string{`cni plugin not initialized`, `[nN]o networks found in /etc/cni`, `cni config uninitialized`},
		},
		{
			ID:     "cni-config",
			Cause:  "a configuration in /etc/cni/net.d names a plugin that the node does not have",
			Remedy: "remove what the image brought there, which `eksnode scrub` does before the capture; of the VPC CNI's own, 10-aws.conflist, the pod aws-node installs the plugins: look at its logs",
			Lines:  []string{`failed to find plugin \\*"[^"]+"`},
		},
		{
			ID:     "kernel-modules",
			Cause:  "the kernel lacks modules that kube-proxy and the VPC CNI need, or nobody loads them, so pods have no network",
			Remedy: "install the package that brings them, such as kernel-modules-extra on Enterprise Linux 10, and make the image again: `eksnode audit --rules kernel-modules` lists them; name br_netfilter, nf_conntrack and overlay in /etc/modules-load.d",
			Lines: []string{
				`Extension \S+ revision \d+ not supported, missing kernel module`, `Couldn't load match .comment'`, `can't initialize ip6?tables table`,
				`Module (br_netfilter|nft_compat|ip_tables|ip6?table_\w+|xt_\w+) not found in directory`, `Failed to find module '(br_netfilter|nf_conntrack|overlay)'`,
				`open /proc/sys/net/netfilter/nf_conntrack_max: no such file or directory`,
			},
		},
		{
			ID:     "addresses",
			Cause:  "pods get no addresses",
			Remedy: "use a larger subnet, prefix delegation or custom networking; remove /var/lib/cni/networks when the image brought it",
			Lines:  []string{`no IP addresses available in range set`, `failed to assign an IP address to container`, `InsufficientFreeAddressesInSubnet`},
		},
		{
			ID:     "serving-certificate",
			Cause:  "the kubelet has no serving certificate, so logs and exec fail",
			Remedy: "the certificate request must be approved: kubectl get csr; remove /var/lib/kubelet/pki when the image brought it, and restart the kubelet",
			Until:  certified,
			Lines:  []string{`remote error: tls: internal error`, `no serving certificate available for the kubelet`},
		},
		{
			ID:     "may-not-run",
			Cause:  "a service may not run its program",
			Remedy: "on SELinux the file has another's context: `restorecon -v FILE`, as `eksnode provision` does; otherwise look at its mode, and at noexec in `findmnt --target FILE`",
			Lines:  []string{`Failed at step EXEC spawning [^:]+: Permission denied`, `ocate executable [^:]+: Permission denied`},
		},
		{
			ID:     "architecture",
			Cause:  "a program is for another processor",
			Remedy: "choose an instance type of the image's architecture, or make an image for this one; of a pod, take a container image that has both",
			Lines:  []string{`[eE]xec format error`},
		},
		{
			ID:     "ordering-cycle",
			Cause:  "systemd left the first boot out: its unit waits for cloud-final.service, which with cloud-init 24.4 comes after multi-user.target, which waits for the unit",
			Remedy: "make the image with `eksnode provision`, whose units keep clear of that; in nodeadm's own, let DefaultDependencies= be no",
			Until:  joined,
			Lines:  []string{`Job (nodeadm|eksnode)\S*\.service/start deleted to break ordering cycle`},
		},
		{
			ID:     "units",
			Cause:  "the image lacks a service that a node needs",
			Remedy: "make the image with `eksnode provision`",
			Lines:  []string{`systemd says that it is (not-found|masked)`, `Unit (kubelet|containerd)\.service (not found|could not be found)`, `Failed at step EXEC spawning [^:]+: No such file or directory`, `finding the version of (kubelet|containerd): `},
		},
		{
			ID:        "first-boot",
			Cause:     "the first boot failed before the kubelet was started",
			Remedy:    "its journal says why: journalctl --boot --unit 'eksnode-*' --unit 'nodeadm-*' | eksnode diagnose -; `eksnode userdata check FILE` looks at the user data",
			Until:     joined,
			Lines:     []string{`(Failed to start|Dependency failed for) .*(EKS Nodeadm (Config|Run)|Configure this node from its user data|Join this node to its cluster)`},
			Otherwise: true,
		},
	}
}
