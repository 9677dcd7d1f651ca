package diagnose

// controllerLines are lines of the controllers that start instances, and of programs
// in their less frequent failures.
var controllerLines = map[string][]string{
	"launch": {
		`getting launch templates, neither spec.provider.instanceProfile nor --aws-default-instance-profile is specified`,
		`* : Unknown: User data was not in the MIME multipart format.`,
		`InvalidRequestException: Cannot specify instance types in launch template and API Request`,
		`api error InvalidSnapshot.NotFound: The snapshot 'snap-0' does not exist.`,
		`SubnetSelector did not match any Subnets`,
		`"reason":"AMINotFound"`,
		`Instance Profile arn:aws:iam::123456789012:instance-profile/a cannot be found.`,
		`The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the specified AMI.`,
	},
	"capacity": {
		`AsgInstanceLaunchFailures: You've reached your quota for maximum Fleet Requests for this account. Launching EC2 instance failed.`,
		`creating instance, insufficient capacity, all requested instance types were unavailable during launch`,
		`VolumeLimitExceeded: Volume limit exceeded.`,
	},
	"spot-role": {
		`with fleet error(s), AuthFailure.ServiceLinkedRoleCreationNotPermitted`,
		`The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.`,
	},
	"node-pool": {
		`"error":"incompatible with nodepool \"default\", daemonset overhead={\"cpu\":\"150m\"}, no instance type satisfied resources"`,
		`incompatible requirements, key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [eu-west-1a] not in`,
		`no instance type met all requirements`,
		`all available instance types exceed limits for nodepool: "default"`,
		`{"level":"INFO","message":"no nodepools found"}`,
		`skipping, nodepool requirements filtered out all instance types`,
	},
	"startup-taint": {
		`"error": "missing required startup taint, karpenter.sh/unregistered"`,
		`missing taint prevents registration-related race conditions on Karpenter-managed nodes`,
		`StartupTaint "node.cilium.io/agent-not-ready:NoExecute" still exists`,
	},
	"dns": {`caused by: Post "https://sts.eu-west-1.amazonaws.com/": dial tcp: i/o timeout`},
	"blocked": {
		`"Failed to ensure lease exists, will retry" err="Get \"https://api.example.com:6443/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a\": context deadline exceeded" interval="7s"`,
		`Get "https://10.0.3.17:6443/healthz": dial tcp 10.0.3.17:6443: connect: connection reset by peer`,
	},
	"no-kubeconfig": {
		`W0629 04:45:46.740389    3660 server.go:552] standalone mode, no API client`,
		`W0629 04:45:46.762681    3660 server.go:464] No api server defined - no events will be sent to API server.`,
		`csi_plugin.go:189] kubernetes.io/csi: kubeclient not set, assuming standalone kubelet`,
		`I0505 17:01:44.750147  127119 volume_host.go:75] "KubeClient is nil. Skip initialization of CSIDriverLister"`,
		`failed to run Kubelet: invalid kubeconfig: context was not found for specified context: a`,
	},
	"provider-id": {`Unable to construct v1.Node object for kubelet: failed to get external ID from cloud provider: instance not found`},
	"unauthorized": {
		`level=warning msg="access denied" arn="arn:aws:iam::123456789012:role/node" client="127.0.0.1:1" error="ARN is not mapped"`,
		`msg="access denied" error="sts getCallerIdentity failed: error from AWS"`,
	},
	"version-skew": {`out waiting for the condition; caused by: the server could not find the requested`},
	"kubelet-flags": {
		`run.go:74] "command failed" err="failed to run Kubelet: unknown cloud provider \"aws\""`,
		`flag provided but not defined: -container-runtime`,
		`"command failed" err="failed to precedence kubeletConfigFlag: unknown shorthand"`,
		`"command failed" err="failed to convert merged config to internal kubelet configuration: no kind"`,
	},
	"kubelet-settings": {
		`invalid configuration: cgroups-per-qos was specified and cgroup-root was not specified`,
		`topology manager policy options [prefer-closest-numa-nodes] require feature gates "TopologyManagerPolicyOptions" enabled`,
		`unknown cpu manager policy`,
		`failed to initialize topology manager: unknown policy: "best"`,
	},
	"cgroups": {
		"OCI runtime: the requested cgroup controller `cpu` is not available: unknown",
		`Failed to start ContainerManager Cannot set property TasksAccounting, or unknown property.`,
		`cannot enter cgroupv2 "/sys/fs/cgroup/a" with domain controllers -- it is in an invalid state`,
		`failed to create top level Burstable QOS cgroup : mkdir: permission denied`,
		`level=error msg="cgroups: cgroup mountpoint does not exist: unknown"`,
		`["kubepods"] cgroup is not configured properly`,
		`Failed to find subsystem mount for required subsystem: pids`,
	},
	"checkpoint": {
		`"Invalid state, please drain node and remove policy state file"`,
		`"Memory states for the NUMA node and resource are different"`,
	},
	"libraries": {`nvidia-container-cli.real: /lib64/libc.so.6: versionGLIBC_2.27' not found (required by libnvidia-container.so.1): unknown`},
	"nvidia": {
		`Expected resource "nvidia.com/gpu" didn't register on the node`,
		`0/3 nodes are available: 3 Insufficient nvidia.com/gpu.`,
		`E0314 17:11:50.668282       1 factory.go:115] Incompatible platform detected`,
		`/bin/nvidia-smi: No such file or directory`,
		`nvidia-persistenced[1800]: Failed to query NVIDIA devices.`,
	},
	"containerd-config": {
		`failed to load base OCI spec from file: /etc/containerd/base-runtime-spec.json`,
		"no corresponding runtime configured in `containerd.runtimes` for `containerd` `default_runtime_name = \"a\"`",
		`failed to get sandbox runtime: no runtime for "kata" is configured`,
		`RuntimeHandler "gvisor" not supported`,
	},
	"containerd-state": {
		`failed to stat parent: stat /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/112/fs: no such file or directory`,
		`failed to prepare extraction layer: failed to create active: missing parent bucket: not found`,
		`Mar 04 14:17:36 ip-10-0-1-2 containerd[2440]: panic: assertion failed: Page expected to be: 3393, but self identifies as 6868`,
		`ip-10-0-1-2 containerd[2440]: go.etcd.io/bbolt._assert(...)`,
		`/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db: invalid database`,
		`level=fatal msg="Failed to run CRI service" error="failed to recover state: failed to load sandbox"`,
		`failed to unpack image on snapshotter overlayfs: unexpected media type: content digest sha256:7f2bdf4f: not found`,
		`error reading blob sha256:7f2bdf4f: open /var/lib/containerd/io.containerd.content.v1.content/blobs: no such file or directory`,
		`snapshot sha256:7f2bdf4f does not exist: not found`,
	},
	"overlayfs": {
		`/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs does not support d_type. If the backing filesystem is xfs, please reformat with ftype=1`,
		`ctr: failed to stat snapshot sha256:f999: snapshotter not loaded: overlayfs: invalid argument`,
		`mount source: "overlay", target: "/var/lib/containerd/tmpmounts/a", fstype: overlay, flags: 0, data: "upperdir=/a", err: invalid argument`,
		`failed to create containerd task: failed to mount rootfs component: invalid argument`,
		`overlayfs: filesystem on '/var/lib/containerd' not supported as upperdir`,
	},
	"csi-driver": {
		`MountVolume.MountDevice failed for volume "pvc-1" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name ebs.csi.aws.com not found in the list of registered CSI drivers`,
		`AttachVolume.Attach failed: CSINode ip-10-0-1-2.ec2.internal does not contain driver ebs.csi.aws.com`,
	},
	"kubelet-disk": {
		`Failed to start ContainerManager failed to get rootfs info: failed to get device for dir "/var/lib/kubelet": could not find device with major: 0, minor: 40 in cached partitions map`,
	},
	"network-plugin": {
		`failed to find network info for sandbox "9441"`,
		`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "9441"`,
		`cni config not initialized`,
		`[FATAL][2338] felix/daemon.go 532: Failed to connect to Typha error=connection to typhas failed`,
	},
	"oci-runtime": {
		`Error response from daemon: oci runtime error: container_linux.go:247`,
		`container_linux.go:380: starting container process caused: process_linux.go:385`,
		`init seccomp caused: error loading seccomp filter into kernel: loading seccomp filter: invalid argument`,
		`unable to apply cgroup configuration: unable to start unit "cri-containerd-a.scope"`,
		`apparmor failed to apply profile: write /proc/self/attr/apparmor/exec: no such file or directory`,
		`runc did not terminate successfully: exit status 2`,
	},
	"units": {
		`runtime "io.containerd.runc.v2" binary not installed "containerd-shim-runc-v2": file does not exist`,
		`exec: "runc": executable file not found in $PATH: unknown`,
		`Failed to start kubelet.service: Unit kubelet.service is masked.`,
	},
}
