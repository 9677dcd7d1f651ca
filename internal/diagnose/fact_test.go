package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The first failure says what failed and how, in the form of any program.
func TestALineSaysWhatFailedAndHow(t *testing.T) {
	for want, line := range samples("facts.txt") {
		first := report(t, line).First
		require.NotNil(t, first, line)
		assert.Equal(t, want, first.Fact.String(), line)
	}
}

// The end of a service or a script is not its reason.
func TestTheReasonIsBeforeTheEnd(t *testing.T) {
	for want, log := range samples("reasons.txt") {
		first := report(t, strings.Split(strings.TrimSuffix(log, "\n"), "\n")...).First
		require.NotNil(t, first, log)
		assert.Contains(t, first.Line, want)
		assert.LessOrEqual(t, len(first.Context), contextMost)
	}
	// What only follows is no cause of its own.
	r := report(t, `containerd[7]: operation of the odd disk: no space left on device`,
		`systemd[1]: containerd.service: Main process exited, code=exited, status=1/FAILURE`)
	require.Len(t, r.Findings, 1)
	assert.Equal(t, "disk-full", r.Findings[0].Rule.ID)
	// The result of a request is about the request's address.
	r = report(t, `ignition[7]: GET http://169.254.169.254/user-data: attempt #1`, `odd[8]: GET https://a/`,
		`ignition[7]: GET result: Unauthorized`)
	assert.Equal(t, "metadata", r.Findings[0].Rule.ID)
	// Without a certain cause the first failure follows.
	general := report(t, `kubelet[7]: something else failed at last`,
		`kubelet[7]: E1120 20:11:13.3 7 a.go:1] "Odd" err="Kubelet stopped posting node status"`)
	assert.Equal(t, Likely, general.Findings[0].Certainty)
	assert.NotNil(t, general.Unexplained())
	assert.Nil(t, report(t, `kubelet[7]: something failed`,
		`err="running with swap on is not supported"`).Unexplained())
}

// Every cause of the matrix is in the table.
func TestTheMatrixNamesCauses(t *testing.T) {
	for _, c := range words().Matrix {
		assert.GreaterOrEqual(t, Fact{Target: c.Target, Class: c.Classes[0]}.causeOf(), 0, c.Cause)
		for _, class := range slices.Concat(c.Classes, words().Unreached, words().OfMachine) {
			assert.NotEmpty(t, words().Phrases[string(class)], class)
		}
		isKind := func(one target) bool { return one.Kind == c.Target }
		assert.True(t, c.Target == "" || slices.ContainsFunc(words().Targets, isKind), c.Target)
	}
	for _, place := range causes() {
		assert.GreaterOrEqual(t, place, 0)
	}
}

// A command names the very thing that failed, unless a shell would take it for more.
func TestCommandsNameWhatFailed(t *testing.T) {
	r := report(t, `odd: error: Get "https://10.0.3.17:6443/api/v1/nodes": dial tcp 10.0.3.17:6443: connect: `+
		`connection refused`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo curl --insecure --max-time 5 https://10.0.3.17:6443/livez")
	r = report(t, `odd: error: open /etc/odd;reboot: no such file or directory`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo ls -lZ FILE")
	r = report(t, `kubelet[7]: E1120 20:11:13.3 7 a.go:1] "failed to load kubelet config file, path: `+
		`/var/lib/kubelet/config.yaml, error: open /var/lib/kubelet/config.yaml: no such file or directory"`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "eksnode userdata check FILE", "it is not the kubelet's file")
	r = report(t, `{"level":"fatal","caller":"odd/main.go:36","msg":"failed","error":"no such file or directory"}`)
	assert.Empty(t, r.Findings, "a line of source is no file of the node")
	r = report(t, `kubelet[7]: could not restore state from checkpoint: open `+
		`/var/lib/kubelet/memory_manager_state: no such device`)
	assert.Contains(t, r.Findings[0].Rule.Commands, "sudo mv --no-clobber /var/lib/kubelet/memory_manager_state /root/")
	r = report(t, `[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are `+
		`not set to 1`)
	assert.Equal(t, "sudo sysctl --write net.ipv4.ip_forward=1", r.Findings[0].Rule.Commands[0])
	r = report(t, lines["kernel-settings"][2])
	assert.Equal(t, "sudo sysctl --write vm.overcommit_memory=1 kernel.panic=10 kernel.panic_on_oops=1",
		r.Findings[0].Rule.Commands[0])
	r = report(t, "invalid kernel parameter value kernel.panic=0 - expected 10")
	assert.Equal(t, "sudo sysctl --write kernel.panic=10", r.Findings[0].Rule.Commands[0])
}

// A node that joined, and whose log goes on without the failure, is not blamed.
func TestAFailureOfAJoinedNodePasses(t *testing.T) {
	const late = `kubelet[7]: E1120 20:11:13.3 7 a.go:1] "Failed to ensure lease exists, will retry" err="Get ` +
		`\"https://10.0.3.17:6443/apis/a\": dial tcp 10.0.3.17:6443: i/o timeout"`
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
		"[    0.1] kernel[1]: odd is not supported").First.Line, "odd is not")
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

// What a template says of a line is what the line says itself.
func TestALineSaysWhatItsTemplateSays(t *testing.T) {
	s, same, all := NewSearch(t.Context()), 0, 0
	for _, one := range collection(t) {
		for line := range strings.Lines(one.log) {
			other := again(line, 4)
			kept := s.template(line, "")
			if all++; kept == s.template(other, "") {
				same++
				require.Equal(t, s.newTemplate(other, ""), kept, line)
			}
		}
	}
	assert.Greater(t, float64(same)/float64(all), 0.98)
	for n := range templatesMost { // and few are kept
		s.template(strings.Repeat("x", n%1000)+strings.Repeat("y", n/1000), "")
	}
	assert.LessOrEqual(t, len(s.templates), templatesMost)
}

// The numbers that a template replaces are in no expression.
func TestWhatVariesInALine(t *testing.T) {
	var texts []string
	for _, r := range Rules() {
		texts = append(texts, slices.Concat(r.Lines, r.Not, table().Moments[r.Until])...)
	}
	for _, one := range words().Targets {
		for _, e := range one.re {
			texts = append(texts, e.re().String())
		}
	}
	found := regexp.MustCompile(`[0-9]{5,}`).FindAllString(strings.Join(texts, "\n"), -1)
	slices.Sort(found)
	assert.ElementsMatch(t, fixed, slices.Compact(found))
	for line, want := range map[string]string{
		"": "", "a 1": "a 1", "x12345": "x00000", "12:34:56,7 1": "00:00:0000 1", "12:34": "12:34",
		"a[12] b[1]": "a[00] b[1]", "port 10250": "port 10250",
		"at 10.0.0.1:52334->127.0.0.1:53": "at 10.0.0.1:00000->127.0.0.1:53",
		"i-0abc12 1.30.4 5.123456s":       "i-000000 1.30.4 5.000000s",
	} {
		assert.Equal(t, want, string(appendConstant(nil, line)), line)
	}
}
