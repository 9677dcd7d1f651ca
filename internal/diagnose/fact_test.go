package diagnose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first failure says what failed and how, in the form of any program.
func TestALineSaysWhatFailedAndHow(t *testing.T) {
	for line, want := range map[string]string{
		`kubelet[7]: E1120 20:11:13.3 7 a.go:1] "Odd" err="Post \"https://10.0.3.17:6443/api/v1/nodes\": dial tcp 10.0.3.17:6443: connect: connection refused"`: "API server 10.0.3.17:6443 refused",
		`time="2026-11-20T20:11:13Z" level=fatal msg="odd" error="dial tcp 10.0.9.9:8443: i/o timeout"`:                                                         "address 10.0.9.9:8443 no answer",
		`{"level":"error","ts":1795205472.5,"msg":"odd","error":"operation error STS: GetCallerIdentity, https response error StatusCode: 403, AccessDenied"}`:  "AWS API STS: GetCallerIdentity denied",
		`odd[7]: error: lookup odd.example.com on 10.0.0.2:53: no such host`:                                                                                    "name odd.example.com name not resolved",
		`kernel: audit: avc:  denied  { execute } for pid=7 comm="odd" path="/opt/odd/run" error`:                                                               "file /opt/odd/run denied",
		`systemd[1]: odd.service: Failed at step EXEC spawning /opt/odd: No such file or directory`:                                                             "file /opt/odd missing",
		`FileNotFoundError: [Errno 2] No such file or directory: '/etc/odd.json'`:                                                                               "file /etc/odd.json missing",
		`E: Unable to locate package odd-tools`:                            "package odd-tools missing",
		`E: Version '1.2-3' for 'odd-tools' was not found`:                 "package odd-tools missing",
		`error: failed to find odd cgroup`:                                 "cgroup odd missing",
		`odd: server certificate verification failed`:                      "not trusted",
		`error: open /proc/sys/net/odd: permission denied`:                 "kernel setting /proc/sys/net/odd denied",
		`odd: error: dial unix /run/odd.sock: connect: connection refused`: "socket /run/odd.sock refused",
		`panic: runtime error: index out of range`:                         "crashed",
	} {
		first := report(t, line).First
		require.NotNil(t, first, line)
		assert.Equal(t, want, first.Fact.String(), line)
	}
}

// The end of a service or a script is not its reason.
func TestTheReasonIsBeforeTheEnd(t *testing.T) {
	for want, log := range map[string]string{
		"the drop-in is of another version": "containerd[7]: the drop-in is of another version\nsshd[9]: error: somebody left\nsystemd[1]: containerd.service: Main process exited, code=exited, status=1/FAILURE",
		"No package odd available.":         "Loaded plugins: fastest\nNo package odd available.\nError: Nothing to do\nutil.py[WARNING]: Failed running /var/lib/cloud/instance/scripts/part-001 [1]",
		"panic: odd":                        "k3s[7]: panic: odd\nk3s[7]: goroutine 1 [running]:\nsystemd[1]: k3s.service: Failed with result 'exit-code'.",
		"unknown filesystem type":           "mount[8]: mount: /var/lib/odd: unknown filesystem type 'odd'.\nsystemd[1]: var-lib-odd.mount: Mount process exited, code=exited, status=32/n/a\nsystemd[1]: Failed to mount var-lib-odd.mount.",
		"the peer is odd: 503 Service":      "agent[8]: error: something failed\nkubelet[7]: the peer is odd: 503 Service Unavailable\nsystemd[1]: kubelet.service: Failed with result 'exit-code'.",
		// a unit whose program has another name (kubernetes/kops#16935)
		`:3988/bootstrap": context deadline`: `nodeup[1829]: W1106 16:08:19.263342    1829 main.go:133] got error running nodeup (will retry in 30s): failed to get node config from server: Post "https://172.20.107.157:3988/bootstrap": context deadline exceeded` + "\nsystemd[1]: kops-configuration.service: Main process exited, code=killed, status=15/TERM",
		// the reason in a line that informs, after another program's (rancher/rke2#4478)
		"Node password rejected": `sudo[7]: pam_systemd(sudo:session): Cannot create session: Already running in a session` + "\n" + `rke2[8]: time="2023-07-17T21:56:09-04:00" level=info msg="Waiting to retrieve agent configuration; server is not ready: Node password rejected, duplicate hostname or content>`,
		// the reason follows (intel/pmem-csi#944)
		"kubelet.conf already exists": "error execution phase preflight: [preflight] Some fatal errors occurred:\n[ERROR FileAvailable--etc-kubernetes-kubelet.conf]: /etc/kubernetes/kubelet.conf already exists",
		// systemctl status (coreos/bugs#2646)
		"odd.service: Main PID: 20886 (code=killed, signal=KILL)": "● odd.service - odd runtime\n   Active: activating (auto-restart) (Result: signal) since Wed 2019-12-18 11:57:20 UTC; 703ms ago\n Main PID: 20886 (code=killed, signal=KILL)",
		"Couldn't find it": "odd[7]: Error: start\nodd[7]: Caused by: Couldn't find it",
		// klog, OpenSSL and audit
		`unknown option "--odd"`: "kube-proxy[7]: E1120 20:11:13.3 7 proxier.go:1] \"Failed to execute iptables-restore\" " +
			"err=<\nkube-proxy[7]:   exit status 2: unknown option \"--odd\"\nkube-proxy[7]:   Error occurred at line: 11",
		":odd name:": "odd[7]: Error Loading command line extensions\n" +
			"odd[7]: 13976:error:220A4076:X509 V3:a2i:odd name:v3_alt.c:477:",
		"unit=odd-mount": "[   22.521476] EXT4-fs (sda1): VFS: Can't find ext4 filesystem\n" +
			"[  113.365942] audit: type=1131 audit(1.1:8): pid=1 msg='unit=odd-mount comm=\"systemd\" res=failed'",
		// what a program waited for
		"10.0.0.1:2379: connect: connection refused": "odd[7]: level=info msg=\"dial tcp 10.0.0.1:2379: connect: connection " +
			"refused\"\nodd[7]: level=error msg=\"checking etcd: context deadline exceeded\"",
		"Memory cgroup": "kernel: Memory cgroup out of memory: Kill process 7 (odd)\ndockerd[7]: level=error msg=\"closed\"",
		"odd.sh failed": "systemd[1]: Starting odd...\ncloud-init[7]: odd.sh failed\n" +
			"cloud-init[7]: Job for systemd-networkd.service failed because the control process exited with error code.",
		// a terminal broke the line
		"for too long to be shown in one line: an odd 403 Forbidden": "odd[7]: something failed for a reason that is given " +
			"in words\nfor too long to be shown in one line: an odd 403 Forbidden",
		`msg="still waiting: 500 Internal`: `rke2[7]: time="2026-11-20T20:11:13Z" level=info msg="still waiting: 500 Internal Server Error"`,
	} {
		first := report(t, strings.Split(log, "\n")...).First
		require.NotNil(t, first, log)
		assert.Contains(t, first.Line, want)
		assert.LessOrEqual(t, len(first.Context), contextMost)
	}
	// What only follows is no cause of its own.
	r := report(t, `containerd[7]: operation of the odd disk: no space left on device`, `systemd[1]: containerd.service: Main process exited, code=exited, status=1/FAILURE`)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, "disk-full", r.Findings[0].Rule.ID)
	// The result of a request is about the request's address.
	r = report(t, `ignition[7]: GET http://169.254.169.254/user-data: attempt #1`, `odd[8]: GET https://a/`,
		`ignition[7]: GET result: Unauthorized`)
	assert.Equal(t, "metadata", r.Findings[0].Rule.ID)
	// Without a certain cause the first failure follows.
	general := report(t, `kubelet[7]: something else failed at last`, `kubelet[7]: E1120 20:11:13.3 7 a.go:1] "Odd" err="Kubelet stopped posting node status"`)
	assert.Equal(t, Likely, general.Findings[0].Certainty)
	assert.NotNil(t, general.Unexplained())
	assert.Nil(t, report(t, `kubelet[7]: something failed`, `err="running with swap on is not supported"`).Unexplained())
}

// The matrix gives a failure its cause, whoever wrote the line and at any level.
func TestTheMatrixGivesAFailureItsCause(t *testing.T) {
	for line, want := range map[string]string{
		`odd-agent[7]: I1120 20:11:13.3 7 a.go:1] "Odd, trying again" err="Get \"https://10.0.3.17:6443/api/v1/odd\": dial tcp 10.0.3.17:6443: connect: no route to host"`: "blocked",
		`odd-agent[7]: level=info msg="odd" err="Get \"https://control:6553/apis/odd/v1\": dial tcp 10.0.3.17:6553: connect: connection refused"`:                          "refused",
		`odd: error: lookup odd.example.com on 10.0.0.2:53: server misbehaving`:                                                                                            "dns",
		`odd: failed: Post "https://sts.eu-west-1.amazonaws.com/": dial tcp 10.0.3.17:443: i/o timeout`:                                                                    "aws-api",
		`odd: failed: https://mirror.example.com/v2/odd/blobs/1: net/http: TLS handshake timeout`:                                                                          "registry-unreachable",
		`odd: error: the password in '/etc/odd/password' is rejected`:                                                                                                      "denied",
		`odd: error: dial tcp 10.0.9.9:9999: connect: connection refused`:                                                                                                  "unreachable",
		`odd[7]: level=info msg="Waiting to ask; the peer is not ready: dial tcp 10.0.9.9:9999: connect: connection refused"`:                                              "unreachable",
		`odd: error: Get "https://127.0.0.1:10250/pods": x509: certificate is not valid for any names`:                                                                     "serving-certificate",
		`odd: error: Get "https://api.example.com/api/v1/snaps": net/http: request canceled (Client.Timeout exceeded while awaiting headers)`:                              "unreachable",
	} {
		r := report(t, line)
		require.Len(t, r.Findings, 1, line)
		assert.Equal(t, want, r.Findings[0].Rule.ID, line)
	}
	for _, c := range matrix {
		assert.GreaterOrEqual(t, Fact{Target: c.target, Class: c.classes[0]}.causeOf(), 0, c.cause)
	}
	for _, place := range causes() {
		assert.GreaterOrEqual(t, place, 0)
	}
}

// A command names the very thing that failed, unless a shell would take it for more.
func TestCommandsNameWhatFailed(t *testing.T) {
	r := report(t, `odd: error: Get "https://10.0.3.17:6443/api/v1/nodes": dial tcp 10.0.3.17:6443: connect: connection refused`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo curl --insecure --max-time 5 https://10.0.3.17:6443/livez")
	r = report(t, `odd: error: open /etc/odd;reboot: no such file or directory`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo ls -lZ FILE")
	r = report(t, `kubelet[7]: E1120 20:11:13.3 7 a.go:1] "failed to load kubelet config file, path: /var/lib/kubelet/config.yaml, `+
		`error: open /var/lib/kubelet/config.yaml: no such file or directory"`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "eksnode userdata check FILE", "it is not the kubelet's file")
	r = report(t, `{"level":"fatal","caller":"odd/main.go:36","msg":"failed","error":"no such file or directory"}`)
	assert.Empty(t, r.Findings, "a line of source is no file of the node")
	r = report(t, `kubelet[7]: could not restore state from checkpoint: open /var/lib/kubelet/memory_manager_state: no such device`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo mv --no-clobber /var/lib/kubelet/memory_manager_state /root/")
	r = report(t, `[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1`)
	assert.Equal(t, "sudo sysctl --write net.ipv4.ip_forward=1", r.Findings[0].Rule.Commands[0])
	r = report(t, lines["kernel-settings"][2])
	assert.Equal(t, "sudo sysctl --write vm.overcommit_memory=1 kernel.panic=10 kernel.panic_on_oops=1", r.Findings[0].Rule.Commands[0])
}

// A node that joined, and whose log goes on without the failure, is not blamed.
func TestAFailureOfAJoinedNodePasses(t *testing.T) {
	const late = `kubelet[7]: E1120 20:11:13.3 7 a.go:1] "Failed to ensure lease exists, will retry" err="Get \"https://10.0.3.17:6443/apis/a\": dial tcp 10.0.3.17:6443: i/o timeout"`
	before := []string{`kubelet[7]: "Successfully registered node" node="a"`, late}
	assert.Equal(t, Found, report(t, before...).Result())
	after := strings.Split(strings.Repeat("kubelet[7]: all is well\n", recentMost), "\n")
	assert.Equal(t, Joined, report(t, append(before, after...)...).Result())
	assert.Equal(t, Found, report(t, append(append(before, late, late), after...)...).Result(), "again and again")
}

// A line that waits is the first failure only if no other line says more.
func TestALineThatWaitsComesLast(t *testing.T) {
	waits := `cloud-init[7]: Waiting for the odd secret...`
	assert.Equal(t, Waits, report(t, "well", waits).First.Fact.Class)
	assert.Contains(t, report(t, waits, "odd: something failed").First.Line, "something failed")
	assert.Equal(t, Refused, report(t, "odd: waiting for it: connection refused").First.Fact.Class)
	assert.Contains(t, report(t, "util.py[DEBUG]: dmidata is not supported",
		"[    0.1] kernel[1]: odd is not supported").First.Line,
		"odd is not")
	assert.Contains(t, report(t, "[  OK  ] Started odd.", "[FAILED] Failed to start Kubelet.").First.Line, "Kubelet")
}

// What only warns comes after what fails.
func TestWarningsComeLast(t *testing.T) {
	warning := `[preflight] WARNING: hostname "odd" lookup odd on 10.0.0.2:53: no such host`
	r := report(t, warning, "	/proc/sys/net/bridge/odd contents are not set to 1")
	require.Len(t, r.Findings, 2)
	assert.Equal(t, "kernel-settings", r.Findings[0].Rule.ID)
	assert.Equal(t, "dns", report(t, warning).Findings[0].Rule.ID)
}
