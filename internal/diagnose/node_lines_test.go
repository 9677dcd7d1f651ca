package diagnose

// nodeLines are those of nodes that do not get ready, and of rules that only say where
// to look further.
var nodeLines = map[string][]string{
	"ca-file":     {`E1126 15:20:10.475914   28831 run.go:72] "command failed" err="failed to run Kubelet: open /etc/kubernetes/pki/ca.crt: no such file or directory"`},
	"pause-image": {`cloud-init[2498]: Job for sandbox-image.service failed because the control process exited with error code.`},
	"containerd": {
		`E1126 15:20:07.5 7 run.go:72] "command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/a.sock\": rpc error: code = Unavailable desc = connection error"`,
		`error: write unix /var/run/docker.sock->@: write: broken pipe`,
		`I1204 06:26:09.828470   29219 kubelet.go:1735] Skipping pod synchronization, container runtime is not up.`,
	},
	"permissions": {
		`Message: Controller isn't authorized to call ec2:RunInstances`, `Reason: RunInstancesAuthCheckFailed`,
		`AuthFailure: You are not the owner of network interface 'eni-0'.`,
	},
	"machine-boot": {
		`[    2.1] VFS: Cannot open root device "nvme0n1p1" or unknown-block(0,0): error -6`,
		`ALERT!  UUID=1 does not exist.  Dropping to a shell!`,
		`kernel: nvme nvme0: I/O 29 QID 1 timeout, aborting`,
		`ena 0000:00:05.0 eth0: The number of lost tx completions is above the threshold (129 > 128). Reset the device`,
	},
	"registry-unreachable": {`failed to pull and unpack image "docker.io/a/b:c": failed to read expected number of bytes: unexpected EOF`},
	"containerd-state":     {`time="2026-11-26T15:20:39.1Z" level=warning msg="failed to load plugin io.containerd.metadata.v1.bolt" error="invalid database"`, `failed to create temp dir: stat /data/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots: no such file or directory`},
	"file-system": {
		`WARN[2022-02-16T16:22:24.9Z] failed to load plugin io.containerd.grpc.v1.content  error="invalid argument"`,
		`Failed to start ContainerManager failed to get rootfs info: unable to find data in memory cache`,
		`skipping pod synchronization - [failed to start eviction manager unable to find data for container /]`,
	},
	"containerd-config": {`failed to unpack image on snapshotter overlayfs: unexpected media type text/html for sha256:9: not found`},
	"units":             {` Main PID: 24218 (code=exited, status=200/CHDIR)`},
	"cgroups": {
		`W0216 08:08:19.912766    4634 server.go:610] failed to get the kubelet's cgroup: mountpoint for cpu not found.  Kubelet system container metrics may be missing.`,
		`root container [kubepods] doesn't exist`,
	},
	"arguments": {`/var/lib/cloud/instance/scripts/part-001: line 5: --b64-cluster-ca: command not found`},
	"denied": {
		`level=error msg="describing load balancers" error="AccessDenied: no policy allows it"`,
		`the mirror answered 403 Forbidden`, `this agent is not authorized`, `the mirror answered 401 Unauthorized`,
		`leases.coordination.k8s.io "a" is forbidden: User "a" cannot update resource "leases"`,
	},
	"silent": {
		// https://repost.aws/questions/QUbZjSa7sZScOI-eSqYYDpag
		`"message": "Kubelet stopped posting node status."`,
		`  Ready            Unknown   Mon, 23 Nov 2026 05:27:19 +0000   Mon, 23 Nov 2026 05:27:19 +0000   NodeStatusUnknown   unknown`,
		`NodeStatusNeverUpdated   Kubelet never posted node status.`,
		`0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.`,
	},
	"unreachable": {
		`agent[7]: dial tcp 10.0.0.9:8443: i/o timeout`, `Ncat: Connection refused.`,
		`ssh: connect to host 10.0.0.9 port 22: No route to host`, `agent[7]: TLS handshake timeout`,
		`could not connect to server: the queue is closed`,
	},
	"tls": {
		`agent[7]: x509: certificate has an unknown extension`, `agent[7]: remote error: tls: handshake failure`,
		`agent[7]: certificate verify failed`,
	},
	"serving-certificate": {`Error from server: error dialing backend: x509: certificate is valid for system:node:a, not a`},
	"limits":              {`nf_conntrack: nf_conntrack: table full, dropping packet`},
	"user-data-script": {
		`ToolError: Command b-bootstrap failed`, `user_data.py[WARNING]: No such file: '/a'`, `yum.Errors.RepoError: failure: repodata/primary.xml.gz from a: [Errno 256] No more mirrors to try.`,
	},
	"volume": {
		`  Warning  FailedAttachVolume  15s   attachdetach-controller  Multi-Attach error for volume "pvc-1" Volume is already exclusively attached`,
		`AttachVolume.Attach failed for volume "pvc-1" : attachment timeout for volume vol-0`,
		`rpc error: code = Internal desc = Could not mount "fs-0:/" at "/var/lib/kubelet/pods/x/mount"`,
		`Unable to mount volumes for pod "a": the volumes are gone`,
	},
	"scheduling": {
		`  Warning  FailedScheduling  2m  default-scheduler  0/3 nodes are available: 3 Too many pods.`,
		`W0906 00:15:33.674846       1 scale_up.go:307] Node group a is not ready for scaleup - backoff`,
		`pod didn't trigger scale-up: 1 max node group size reached`,
	},
	"image-pull": {
		`  Warning  Failed     8m37s (x4 over 10m)   kubelet            Error: ErrImagePull`,
		`  Normal   BackOff    18s   kubelet, a  Back-off pulling image "602401143452.dkr.ecr.us-west-2.amazonaws.com/amazon-k8s-cni:latest"`,
		`ctr: failed to extract layer sha256:5a: unlinkat /data/a: directory not empty: unknown`,
	},
	"syntax": {
		`agent[7]: yaml: line 7: did not find expected key`,
		`json: cannot unmarshal string into Go value of type int`,
		`invalid character '}' looking for beginning of value`,
		`part-001: line 9: syntax error near unexpected token`,
	},
	"file": {
		`agent[7]: open /etc/agent/agent.conf: no such file or directory`,
		`/opt/agent/run.sh: Permission denied`,
		`systemd[1]: kubelet.service: Main process exited, code=exited, status=203/EXEC`,
	},
}
