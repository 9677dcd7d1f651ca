package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A good start has lines that look like failures. In this order a node of Amazon
// Linux 2023 wrote them.
const goodStart = `Nov 20 20:10:58 localhost kernel: ena 0000:00:05.0: LLQ is not supported Fallback to host mode policy.
Nov 20 20:10:58 localhost kernel: nvme nvme0: 2/0/0 default/read/poll queues
Nov 20 20:10:59 localhost systemd[1]: systemd-sysext.service - Merge System Extension Images was skipped because of an unmet condition check.
Nov 20 20:11:00 localhost cloud-init[1603]: Cloud-init v. 22.2.2 running 'init' at Fri, 20 Nov 2026 20:11:00 +0000. Up 6.12 seconds.
Nov 20 20:11:01 localhost nodeadm[1616]: {"level":"info","ts":1795205461.78,"caller":"init/init.go:57","msg":"Loading configuration..","configSource":"imds://user-data"}
Nov 20 20:11:01 localhost nodeadm[1616]: SDK 2026/11/20 20:11:01 DEBUG attempting waiter request, attempt count: 1
Nov 20 20:11:03 ip-10-0-1-2.eu-west-1.compute.internal containerd[1700]: time="2026-11-20T20:11:03.000000000Z" level=info msg="skip loading plugin \"io.containerd.snapshotter.v1.btrfs\"..." error="path /var/lib/containerd/io.containerd.snapshotter.v1.btrfs (xfs) must be a btrfs filesystem to be used with the btrfs snapshotter: skip plugin"
Nov 20 20:11:03 ip-10-0-1-2.eu-west-1.compute.internal containerd[1700]: time="2026-11-20T20:11:03.000000000Z" level=warning msg="failed to load plugin io.containerd.snapshotter.v1.devmapper" error="devmapper not configured"
Nov 20 20:11:03 ip-10-0-1-2.eu-west-1.compute.internal containerd[1700]: time="2026-11-20T20:11:03.000000000Z" level=error msg="failed to load cni during init, please check CRI plugin status before setting up network for pods" error="cni config load failed: no network config found in /etc/cni/net.d: cni plugin not initialized: failed to load cni config"
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: Flag --container-runtime-endpoint has been deprecated, This parameter should be set via the config file specified by the Kubelet's --config flag.
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:04.100000    1790 kubelet.go:1480] "Image garbage collection failed once. Stats initialization may not have completed yet" err="invalid capacity 0 on image filesystem"
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:04.200000    1790 kubelet.go:2406] "Skipping pod synchronization" err="[container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]"
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:04.300000    1790 kubelet_node_status.go:75] "Attempting to register node" node="ip-10-0-1-2.eu-west-1.compute.internal"
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:04.400000    1790 kubelet_node_status.go:107] "Unable to register node with API server" err="Post \"https://ABC.gr7.eu-west-1.eks.amazonaws.com/api/v1/nodes\": dial tcp 10.0.3.17:443: connect: connection refused" node="ip-10-0-1-2.eu-west-1.compute.internal"
Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: W1120 20:11:04.500000    1790 reflector.go:569] k8s.io/client-go/informers/factory.go:160: failed to list *v1.Node: nodes "ip-10-0-1-2.eu-west-1.compute.internal" is forbidden: User "system:node:ip-10-0-1-2.eu-west-1.compute.internal" cannot list resource "nodes" in API group "" at the cluster scope: node 'ip-10-0-1-2.eu-west-1.compute.internal' cannot read all nodes, only its own Node object
Nov 20 20:11:05 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:05.100000    1790 eviction_manager.go:292] "Eviction manager: failed to get summary stats" err="failed to get node info: node \"ip-10-0-1-2.eu-west-1.compute.internal\" not found"
Nov 20 20:11:05 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:05.200000    1790 kubelet.go:3010] "Container runtime network not ready" networkReady="NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
Nov 20 20:11:05 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:11:05.300000    1790 log.go:245] http: TLS handshake error from 10.0.3.17:52334: no serving certificate available for the kubelet
Nov 20 20:11:11 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:11.400000    1790 kubelet_node_status.go:78] "Successfully registered node" node="ip-10-0-1-2.eu-west-1.compute.internal"
Nov 20 20:11:12 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:12.400000    1790 certificate_manager.go:715] "Certificate rotation deadline determined" logger="kubernetes.io/kubelet-serving"
Nov 20 20:11:13 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: {"level":"info","ts":"2026-11-20T20:11:13.0Z","caller":"entrypoint.sh","msg":"Retrying waiting for IPAM-D"}
Nov 20 20:11:14 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:14.400000    1790 kubelet_node_status.go:439] "Fast updating node status as it just became ready"
Nov 20 20:11:20 ip-10-0-1-2.eu-west-1.compute.internal amazon-ssm-agent[1650]: 2026-11-20 20:11:20 ERROR EC2RoleProvider Failed to connect to Systems Manager with instance profile role credentials. Err: retrieved credentials failed to report to ssm. Error: AccessDeniedException: User: arn:aws:sts::111122223333:assumed-role/node/i-0 is not authorized to perform: ssm:UpdateInstanceInformation on resource: arn:aws:ec2:eu-west-1:111122223333:instance/i-0
Nov 20 20:11:21 ip-10-0-1-2.eu-west-1.compute.internal amazon-ssm-agent[1650]: 2026-11-20 20:11:21 ERROR error occurred when starting amazon-ssm-agent: Post "https://ssm.eu-west-1.amazonaws.com/": dial tcp 10.0.3.18:443: i/o timeout
Nov 20 20:11:30 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: W1120 20:11:30.400000    1790 machine.go:65] Cannot read vendor id correctly, set empty.
`

func TestAGoodStartSaysJoined(t *testing.T) {
	r := searched(t, "journal\n"+goodStart)
	for _, f := range r.Findings {
		assert.Fail(t, f.Rule.ID, strings.Join(f.Evidence, "\n"))
	}
	assert.Equal(t, Joined, r.Result())
}

// Lines that look like a fault, and blame nothing.
func TestLinesOfHealthyNodesBlameNothing(t *testing.T) {
	for name, line := range map[string]string{
		"old kubelet":                `kubelet[1334]: W1103 13:31:44.305524    1334 container_manager_linux.go:205] Running with swap on is not supported, please disable swap! This will be a fatal error by default starting in K8s v1.6!`,
		"schema":                     `2025-03-30 00:19:27,094 - schema.py[WARNING]: Invalid cloud-config provided: Please run 'sudo cloud-init schema --system' to see the schema errors.`,
		"debconf":                    `dpkg-preconfigure: unable to re-open stdin: No such file or directory`,
		"localhost":                  `cluster-bootstrap[4418]: Still waiting for the Kubernetes API: Get "https://localhost:6443/readyz": dial tcp [::1]:6443: connect: connection refused`,
		"snapd":                      `Jul  6 05:57:52 ubuntu snapd[1317]: stateengine.go:150: state ensure error: Get https://api.snapcraft.io/api/v1/snaps/sections: x509: certificate has expired or is not yet valid`,
		"pollinate":                  `Feb  3 18:34:24 ubuntu pollinate[7]: * Could not resolve host: entropy.ubuntu.com`,
		"answers":                    `kubelet[7]: E0523 08:23:30.1 7 a.go:1] "Error updating node status, will retry" err="Get \"https://10.0.3.17:6443/api/v1/nodes/a\": dial tcp 10.0.3.17:6443: connect: connection refused"` + "\n" + `kubelet[7]: I0523 08:23:34.5 7 reflector.go:368] Caches populated for *v1.ConfigMap from object-"a"/"b"`,
		"no cached configuration":    `nodeadm[1901]: {"level":"warn","ts":1754300001.2,"msg":"failed to load cached config","error":"open /run/eks/nodeadm/config.json: no such file or directory"}`,
		"the CNI checks itself":      `{"level":"info","ts":"2025-01-01T10:10:10.000Z","caller":"entrypoint.sh","msg":"Checking for IPAM connectivity ... "}`,
		"a pod before a reboot":      `kubelet[700]: E0804 10:00:05.2 700 remote_runtime.go:222] "StopPodSandbox from runtime service failed" err="plugin type=\"calico\" failed (delete): error getting ClusterInformation: Get \"https://10.96.0.1:443/apis/x\": dial tcp 10.96.0.1:443: i/o timeout"`,
		"an agent tries again":       `time="2025-08-04T10:11:12Z" level=info msg="certificate signed by unknown authority, retrying with system pool"`,
		"overlay in the kernel":      `modprobe[400]: modprobe: FATAL: Module overlay not found in directory /lib/modules/6.18.44`,
		"a node without a GPU":       `cloud-init[3000]: nvidia-smi not found`,
		"another program":            `[    3.0] dracut-pre-udev[300]: rpcbind: /run/rpcbind: No such file or directory`,
		"an agent's image":           `snapd[800]: daemon.go:519: cannot communicate with the store: connection refused`,
		"no counters for a watchdog": `Nov 10 15:53:00 localhost kernel: [    0.231647] NMI watchdog: Shutting down hard lockup detector on all cpus`,
		"SELinux permits":            `audit[1209]: AVC avc:  denied  { setattr } for  pid=1209 comm="auditd" name="audit" dev="nvme0n1p1" scontext=system_u:system_r:auditd_t:s0 tcontext=system_u:object_r:var_log_t:s0 tclass=dir permissive=1`,
		"a level after the time":     `Dec 30 07:39:52 ip-172-31-23-94 app: 2021-12-30 07:39:52.653  INFO 7997 --- [main] o.a.c.core.AprLifecycleListener : The native library was not found on the path: open /usr/lib64: no such file or directory`,
		"a web server":               `Feb 29 22:00:39 a apachectl[2596]: apache2: Syntax error on line 222 of /etc/apache2/apache2.conf: Could not open configuration file /etc/apache2/conf: No such file or directory`,
		"a client of a web server":   `[Wed Mar 20 20:26:13.614476 2019] [:error] [pid 7] [client 185.206.225.230:33621] script '/var/www/html/adminer.php' not found or unable to stat`,
		"Java":                       `java.lang.IllegalArgumentException: Invalid character found in the request target [/index.php?s=/Index/]`,
		"a user of a package":        `Warning: The home dir /run/uuidd you specified can't be accessed: No such file or directory`,
		"RHEL without registration":  `2019-02-16 13:20:12,188 [ERROR] subscription-manager:10073:MainThread @identity.py:145 - Reload of consumer identity cert /etc/pki/consumer/cert.pem raised an exception with msg: [Errno 2] No such file or directory: '/etc/pki/consumer/key.pem'`,
		"a machine outside of AWS":   `kubelet[11617]: E1104 18:22:40.193361   11617 aws_credentials.go:77] while getting AWS credentials NoCredentialProviders: no valid providers in chain. Deprecated.`,
		"journalctl explains":        `░░ The unit kubelet.service has failed: open /etc/kubernetes/a: no such file or directory`,
		"the SSM agent's console":    `2026/04/22 19:51:34Z: SSM Agent unable to acquire credentials: <error>no valid credentials could be retrieved for ec2 identity: AccessDeniedException: Systems Manager's instance management role is not configured</error>`,
		"a user without rights":      `Get "http://169.254.169.254/latest/meta-data/": dial tcp 169.254.169.254:80: socket: permission denied`,
	} {
		assert.Empty(t, searched(t, "journal\n"+line+"\n").Findings, name)
	}
}

// The remedy names the program that has to be looked at.
func TestTheOwnerOfTheNetworkIsNamed(t *testing.T) {
	for line, owner := range map[string]string{
		`plugin type="calico" failed (add): error getting ClusterInformation: connection is unauthorized`: "calico-node",
		`plugin type="cilium-cni" failed (add): Cilium API client timeout exceeded`:                       "k8s-app=cilium",
		`plugin type="aws-cni" failed (add): add cmd: failed to assign`:                                   "k8s-app=aws-node",
		`lookup api.example.com on 169.254.20.10:53: read udp 10.0.0.1:1->169.254.20.10:53: i/o timeout`:  "node-local-dns",
		`lookup api.example.com on 10.0.0.2:53: no such host`:                                             "enable-dns-support",
	} {
		got := searched(t, "journal\n"+line+"\n").Findings
		if assert.NotEmpty(t, got, line) {
			assert.Contains(t, strings.Join(got[0].Rule.Commands, "\n"), owner)
		}
	}
}

// The innermost error is at the end of a line, which a cut keeps.
func TestTheEndOfALongLineIsShown(t *testing.T) {
	line := `Aug 04 10:11:12 ip-10-0-1-2 kubelet[2201]: E0804 10:11:12.123456    2201 run.go:72] "command failed" err="failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, error: failed to load Kubelet config file /var/lib/kubelet/config.yaml, error failed to read kubelet config file, error: open /var/lib/kubelet/config.yaml: no such file or directory"`
	got := searched(t, "journal\n"+line+"\n").Findings
	assert.Equal(t, "template", got[0].Rule.ID)
	assert.True(t, strings.HasSuffix(got[0].Evidence[0], `no such file or directory"`), got[0].Evidence[0])
}

// The kubelet writes these lines when a pod is deleted: the node may no longer
// read the pod and its secrets.
const deletedPod = `Nov 20 20:12:11 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:12:11.682950    1790 status_manager.go:1018] "Failed to get status for pod" err="pods \"one\" is forbidden: User \"system:node:ip-10-0-1-2.eu-west-1.compute.internal\" cannot get resource \"pods\" in API group \"\" in the namespace \"default\": no relationship found between node 'ip-10-0-1-2.eu-west-1.compute.internal' and this object" pod="default/one"
Nov 20 20:12:11 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: E1120 20:12:11.690000    1790 reflector.go:205] "Failed to watch" err="failed to list *v1.Secret: secrets \"app\" is forbidden: User \"system:node:ip-10-0-1-2.eu-west-1.compute.internal\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\": no relationship found between node 'ip-10-0-1-2.eu-west-1.compute.internal' and this object" reflector="object-default/app"
`

func TestADeletedPodIsNoFault(t *testing.T) {
	assert.Equal(t, Joined, searched(t, "journal\n"+goodStart+deletedPod).Result())
}

// kubectl logs ended.
func TestAReaderOfALogThatGoesAwayIsNoFault(t *testing.T) {
	r := report(t, `E0321 07:09:19.380514     801 kuberuntime_logs.go:201] Failed with err write tcp 10.0.1.2:10250->`+
		`10.0.1.3:35506: write: connection reset by peer when writing log for log file "/var/log/pods/8cc50428/a_0.log"`)
	assert.Empty(t, r.Findings)
}

// A node that joined has no cause that only says where to look further.
func TestAGeneralCauseNeedsANodeThatDidNotJoin(t *testing.T) {
	for _, r := range Rules() {
		if r.Otherwise {
			line := lines[r.ID][0] + "\n"
			assert.Equal(t, Found, searched(t, "journal\n"+line).Result(), r.ID)
			assert.Equal(t, Joined, searched(t, "journal\n"+goodStart+line).Result(), r.ID)
		}
	}
}

// One fault in the noise of a good start up to the point where the node would join is
// found.
func TestAFaultInTheNoiseOfAStartIsFound(t *testing.T) {
	before, _, _ := strings.Cut(goodStart, "Nov 20 20:11:04 ip-10-0-1-2.eu-west-1.compute.internal kubelet[1790]: I1120 20:11:04.300000")
	for _, r := range Rules() {
		got := searched(t, "journal\n"+before+lines[r.ID][0]+"\n")
		if assert.NotEmpty(t, got.Findings, r.ID) {
			assert.Equal(t, r.ID, got.Findings[0].Rule.ID)
		}
	}
}
