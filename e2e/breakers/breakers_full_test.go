//go:build full

package breakers_test

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/e2e/base"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/e2e/tools"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/diagnose"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
)

// world is the script that makes a world of folders, networks and programs for one
// case: $1 has the programs, $2 is the setting and $3 the command.
//
//go:embed testdata/world.sh
var world string

const (
	kubelet = `run_kubelet "$@"`
	// container runs a container with a network by a CNI plugin.
	container = `run_container /bin/busybox echo works`
	// abroad is a container that sends through the node.
	abroad = `outside; run_container /bin/busybox ping -c 1 -W 2 198.51.100.2`
)

// breaks are settings: the rule that finds each in files, what makes it in the test's
// namespaces, the command that then fails, what it says, and the cause that diagnose names
// first in all its words. A kubelet of these worlds has no cluster, and diagnose names that
// without the setting too.
var breaks = []struct {
	rule    string
	files   map[string]string
	setting string
	command string
	says    string
	cause   string
}{
	{"noexec-cni", fstab("/opt", "noexec"), `remount /opt noexec`, container,
		"fork/exec /opt/cni/bin/ptp: permission denied", "may-not-run"},
	{"noexec-programs", fstab("/usr/local", "noexec"), `remount /usr/local noexec`, container,
		"containerd: Permission denied", "file"},
	{"read-only-state", fstab("/var/lib/kubelet", "ro"), `remount /var/lib/kubelet ro`, kubelet,
		"/var/lib/kubelet/pki: read-only file system", "disk-errors"},
	{
		"read-only-state", fstab("/var/lib", "ro"), `remount /var/lib/containerd ro`, container,
		"containerd: chmod /var/lib/containerd: read-only file system", "disk-errors",
	},
	{
		"closed-programs", map[string]string{"usr/bin/runc": "#!/bin/sh\n"},
		`chmod 0644 /usr/local/bin/runc`, container,
		`exec: "runc": executable file not found`, "units",
	},
	{
		"closed-programs", map[string]string{"opt/cni/bin/loopback": "#!/bin/sh\n"}, `chmod 0644 /opt/cni/bin/ptp`, container,
		"fork/exec /opt/cni/bin/ptp: permission denied", "may-not-run",
	},
	{
		"unit-capabilities", dropIn("containerd", "CapabilityBoundingSet=CAP_NET_ADMIN"),
		`containerd_with='setpriv --bounding-set=-all,+net_admin'`, container,
		"unshare remaining namespaces: Operation not permitted", "oci-runtime",
	},
	{
		"unit-limits", dropIn("kubelet", "LimitNOFILE=16"), `with='prlimit --nofile=16'`, kubelet, "too many open files",
		"limits",
	},
	{
		"unit-masked", map[string]string{"etc/systemd/system/containerd.service": "-> /dev/null"}, `no_containerd=1`, kubelet,
		"validate CRI v1 runtime API for endpoint", "containerd",
	},
	{
		"unit-network", dropIn("kubelet", "PrivateNetwork=yes"), `with='unshare --net'; api=192.0.2.1`, kubelet,
		"dial tcp 192.0.2.1:443: connect: network is unreachable", "node-network",
	},
	{
		"kernel-settings", map[string]string{"etc/sysctl.d/60-cis.conf": "vm.overcommit_memory = 0\n"},
		`settle; echo 0 > /run/vm.overcommit_memory; config='protectKernelDefaults: true'`, kubelet,
		"invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0", "kernel-settings",
	},
	{
		"resolver-missing", map[string]string{
			"etc/resolv.conf": "-> ../run/systemd/resolve/resolv.conf", "usr/lib/systemd/systemd": "",
			"etc/systemd/system/systemd-resolved.service": "-> /dev/null",
		},
		`pod=1; rm /run/systemd/resolve/resolv.conf`, kubelet,
		"open /run/systemd/resolve/resolv.conf: no such file or directory", "resolv-conf",
	},
	{
		"new-interfaces-forward", map[string]string{"etc/sysctl.d/99-cis.conf": "net.ipv4.ip_forward = 1\nnet.ipv4.conf.default.forwarding = 0\n"},
		`sysctl -qw net.ipv4.conf.default.forwarding=0`, abroad, "100% packet loss", "",
	},
	{
		"host-firewall", map[string]string{"etc/iptables/rules.v4": "*filter\n-A FORWARD -j DROP\nCOMMIT\n",
			"etc/systemd/system/multi-user.target.wants/netfilter-persistent.service": "-> /x"},
		`iptables -A FORWARD -j DROP`, abroad, "100% packet loss", "",
	},
}

func fstab(folder, option string) map[string]string {
	return map[string]string{"etc/fstab": "/dev/vdb " + folder + " ext4 " + option + " 0 2\n"}
}

func dropIn(unit, line string) map[string]string {
	return map[string]string{
		"etc/systemd/system/" + unit + ".service":            "[Service]\n",
		"etc/systemd/system/" + unit + ".service.d/cis.conf": "[Service]\n" + line + "\n",
	}
}

func TestBreakersBreakRealPrograms(t *testing.T) {
	require.NoError(t, base.Install(t.Context(), t.Output(), "busybox-static", "iproute2", "iptables", "procps", "util-linux"))
	programs := t.TempDir()
	for name, unpack := range map[string]string{
		tools.NameContainerd: `tar -xzf "$1" -C "$2"`, tools.NameCNIPlugins: `mkdir "$2/cni"; tar -xzf "$1" -C "$2/cni"`,
		tools.NameRunc: `cp "$1" "$2/bin/runc"`, tools.NameKubelet: `cp "$1" "$2/bin/kubelet"`,
	} {
		path, err := tools.Build(t.Context(), name, "", runtime.GOARCH, t.Output())
		require.NoError(t, err)
		testkit.Run(t, "sh", "-euc", `mkdir -p "$2/bin"; `+unpack, "sh", path, programs)
	}
	for _, b := range breaks {
		t.Run(b.rule, func(t *testing.T) {
			assert.Contains(t, audited(t, b.files, b.rule), b.rule, "the audit must find the setting")
			calm := said(t, programs, without(b.setting), b.command)
			assert.NotContains(t, calm, b.says, "without the setting")
			out := said(t, programs, b.setting, b.command)
			assert.Contains(t, out, b.says)
			t.Logf("%s: %.200s", b.rule, lineWith(out, b.says))
			if b.cause != "" { // a program that drops packets says nothing
				before, causes := diagnosed(t, calm), diagnosed(t, out)
				causes = slices.DeleteFunc(causes, func(c string) bool { return slices.Contains(before, c) })
				require.NotEmpty(t, causes)
				assert.Equal(t, b.cause, causes[0], "%q", causes)
			}
		})
	}
}

// audited is the audit of a root with these files, by one rule.
func audited(t *testing.T, files map[string]string, rule string) (found []string) {
	h := hosttest.Root(t, files)
	hosttest.Lay(t, h.Root(), map[string]string{"etc/os-release": "ID=debian\nVERSION_ID=13\n"})
	report, _ := eksnode.Audit(t.Context(), h, scrub.Spec{Only: []string{rule}},
		eksnode.Options{}) // a finding is an error
	for _, p := range report.Plan {
		found = append(found, p.Item)
	}
	return found
}

// said is what a command says in a new world.
func said(t *testing.T, programs, setting, command string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	script := filepath.Join(t.TempDir(), "world.sh")
	require.NoError(t, os.WriteFile(script, []byte(world), 0o600))
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", script, programs, setting, command)
	out, _ := cmd.CombinedOutput() // the words say more than the code
	return string(out)
}

// diagnosed are the causes that diagnose finds in what a program says.
func diagnosed(t *testing.T, text string) (causes []string) {
	s := diagnose.NewSearch(t.Context())
	require.NoError(t, s.Log(diagnose.Log{Name: "node", Text: strings.NewReader(text)}))
	for _, f := range s.Report().Findings {
		causes = append(causes, f.Rule.ID)
	}
	return causes
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}

// without is the part of a setting that only prepares it: what the command needs too.
func without(setting string) string {
	prepared := map[string]string{
		"settle": "settle; config='protectKernelDefaults: true'", "pod=1": "pod=1",
		"with='unshare --net'": "api=192.0.2.1; ip addr add 192.0.2.2 dev lo; ip route add default dev lo",
	}
	first, _, _ := strings.Cut(setting, ";")
	return prepared[first]
}
