//go:build linux

package bootstrap

import (
	"crypto/x509"
	"crypto/x509/pkix"
	_ "embed"
	"encoding/pem"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/render"
	"github.com/eksnode/packer-plugin-eksnode/e2e/aws/imdstest"
	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/host/hosttest"
	"github.com/eksnode/packer-plugin-eksnode/internal/image/templates"
)

// lay writes files to a machine, with times from before the boot.
func lay(t *testing.T, h *host.Host, files map[string]string) {
	t.Helper()
	old := time.Now().Add(-24 * time.Hour)
	for name, content := range files {
		require.NoError(t, h.Files.WriteFile(name, []byte(content), host.Attributes{Mode: 0o644}))
		require.NoError(t, h.Files.Chtimes(name, old, old))
	}
}

func there(t *testing.T, h *host.Host, name string) bool {
	t.Helper()
	_, err := h.Files.Lstat(name)
	return err == nil
}

// said returns the lines of the log with a prefix, without the prefix.
func (w *world) said(prefix string) []string {
	var lines []string
	for _, l := range w.log {
		if rest, ok := strings.CutPrefix(l, prefix); ok {
			lines = append(lines, rest)
		}
	}
	return lines
}

// amazonText is the kubelet.service of Amazon Linux 2.
//
//go:embed testdata/amazon-kubelet.service
var amazonText string

// The files that Amazon Linux 2's bootstrap.sh writes.
const (
	argsDropIn  = "/etc/systemd/system/kubelet.service.d/10-kubelet-args.conf"
	extraDropIn = "/etc/systemd/system/kubelet.service.d/30-kubelet-extra-args.conf"
	argsText    = "[Service]\nEnvironment='KUBELET_ARGS=--node-ip=10.0.9.9 --pod-infra-container-image=602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause:3.5 --v=2 --hostname-override=ip-10-0-9-9.eu-west-1.compute.internal --cloud-provider=external'\n"
	extraText   = "[Service]\nEnvironment='KUBELET_EXTRA_ARGS=--node-labels=cluster=a --reserved-cpus=0'\n"

	shadow  = "/etc/systemd/system/kubelet.service"
	ownUnit = "/usr/lib/systemd/system/kubelet.service"
	ownText = "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\nExecStart=/usr/bin/kubelet " +
		"$NODEADM_KUBELET_ARGS $KUBELET_ARGS $KUBELET_EXTRA_ARGS\n"
	sandbox     = "/etc/systemd/system/sandbox-image.service"
	sandboxText = "[Service]\nType=oneshot\nExecStart=/etc/eks/containerd/pull-sandbox-image.sh\n"

	otherConfig = `{"kind": "KubeletConfiguration", "providerID": "aws:///eu-west-1a/i-captured"}`
	device      = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
	cpuState    = "/var/lib/kubelet/cpu_manager_state"
)

// A machine whose image was captured from a node, of either contract, has the same
// files after first boot as a machine of a clean image. The log lists all removals.
func TestLeftoverStateOfAnotherNodeIsRemoved(t *testing.T) {
	left := map[string]string{
		argsDropIn: argsText, extraDropIn: extraText, shadow: amazonText, sandbox: sandboxText,
		"/var/lib/kubelet/pki/kubelet-client-current.pem": "a",
		cpuState:                                        `{"policyName":"none","defaultCpuSet":"0-63","checksum":1}`,
		"/var/lib/kubelet/memory_manager_state":         `{"policyName":"None","checksum":1}`,
		"/var/lib/kubelet/dra_manager_state":            `{"data":"{}","checksum":1}`,
		"/var/lib/kubelet/allocated_pods_state":         `{"data":`,
		"/var/lib/kubelet/actuated_pods_state":          `{"data":"{}","checksum":1}`,
		"/var/lib/kubelet/pod_status_manager_state":     `{}`,
		"/var/lib/kubelet/graceful_node_shutdown_state": `{}`,
		device: `{"Data":{"RegisteredDevices":{"example.com/phantom":["one"]}},"Checksum":1}`,
	}
	for trace, more := range map[string]map[string]string{
		"the file belongs to the instance i-captured":                          {templates.KubeletConfig: otherConfig},
		"the file belongs to the instance i-captured, by NodeConfig":           {render.KubeletConfig: otherConfig},
		"the file belongs to a cluster with a different certificate authority": {render.ClusterCA: "of a"},
		"the file belongs to the cluster at https://a.example":                 {render.Kubeconfig: "clusters:\n- cluster:\n    server: https://a.example\n"},
		"the file belongs to a node whose configuration is missing, alone":     nil,
	} {
		t.Run(trace, func(t *testing.T) {
			fresh, h, w := mounted(t), mounted(t), surround(t, imdstest.Typical())
			for _, m := range []*host.Host{fresh, h} {
				lay(t, m, map[string]string{ownUnit: ownText})
			}
			w.join(t, fresh, config(t, "b", ""))
			lay(t, h, left)
			lay(t, h, more)
			require.NoError(t, h.Files.MkdirAll("/etc/systemd/system/multi-user.target.wants", 0o755))
			require.NoError(t, h.Files.SymlinkIfPossible(sandbox, "/etc/systemd/system/multi-user.target.wants/sandbox-image.service"))
			if more == nil { // certificates would be evidence of their own
				require.NoError(t, h.Files.RemoveAll("/var/lib/kubelet/pki"))
			}
			w.log = nil
			w.join(t, h, config(t, "b", ""))
			healed := contents(tree(t, h, written...))
			delete(healed, templates.KubeletConfig) // this contract does not read the template
			assert.Equal(t, contents(tree(t, fresh, written...)), healed)
			why, _, _ := strings.Cut(trace, ", ")
			said := w.said("leftover-state: ")
			for name := range left {
				if there(t, fresh, name) || more == nil && strings.Contains(name, "/pki/") {
					continue
				}
				want := "remove " + name + " (" + why + ")"
				switch name {
				case shadow:
					want = "remove " + name + " (Amazon Linux 2's bootstrap.sh copied this unit, which overrides " + ownUnit + ")"
				case sandbox:
					want = "remove " + name + " (Amazon Linux 2's bootstrap.sh copied this unit; first boot pulls the pause image without the unit)"
				case "/var/lib/kubelet/pki/kubelet-client-current.pem":
					want = "remove " + path.Dir(name) + " (" + why + ")"
				}
				assert.Contains(t, said, want)
			}
			w.log = nil
			before := tree(t, h, written...)
			w.join(t, h, config(t, "b", ""))
			assert.Equal(t, before, tree(t, h, written...))
			assert.Equal(t, []string{"nothing to do"}, w.said("leftover-state: "))
		})
	}
}

func TestStateOfThisNodeIsKept(t *testing.T) {
	for name, version := range map[string]string{"its configuration names the instance": "1.34.4", "its arguments name the address": "1.25.1"} {
		t.Run(name, func(t *testing.T) {
			h := hosttest.Mounted(t, machineFolder(t, version, "2.1.4"))
			w := surround(t, imdstest.Typical())
			w.join(t, h, config(t, "a", ""))
			state := []string{cpuState, "/var/lib/kubelet/allocated_pods_state", device, extraDropIn}
			lay(t, h, map[string]string{state[0]: `{"policyName":"none"}`, state[1]: `{"data":"{}"}`, state[2]: `{}`, state[3]: extraText})
			w.join(t, h, config(t, "a", ""))
			for _, file := range state {
				assert.True(t, there(t, h, file), file)
			}
		})
	}
}

func TestAddressIdentifiesLeftoverStateBeforeKubernetes126(t *testing.T) {
	h := hosttest.Mounted(t, machineFolder(t, "1.25.1", "2.1.4"))
	w := surround(t, imdstest.Typical())
	w.join(t, h, config(t, "a", ""))
	lay(t, h, map[string]string{cpuState: `{"policyName":"none"}`})
	other := imdstest.Typical()
	other.IPv4 = "10.0.7.7"
	w = surround(t, other)
	w.join(t, h, config(t, "a", ""))
	assert.Equal(t, []string{"remove " + cpuState + " (the file belongs to the node at 10.0.1.2)"}, w.said("leftover-state: "))
}

func TestDamagedCheckpointsAreRemoved(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	w.join(t, h, config(t, "a", ""))
	names := []string{cpuState, "/var/lib/kubelet/allocated_pods_state", "/var/lib/kubelet/dra_manager_state"}
	lay(t, h, map[string]string{names[0]: "", names[1]: `{"data":`, names[2]: "\x00\x00\x00"})
	w.log = nil
	w.join(t, h, config(t, "a", ""))
	for _, name := range names {
		assert.Contains(t, w.said("leftover-state: "), "remove "+name+" (the file is damaged, and the kubelet does not start with it)")
	}
}

// State stays if it is of this node, and if the kubelet starts with it. The processors
// differ after a change of the instance type.
func TestStateIsKeptOnlyForThisNode(t *testing.T) {
	const server = "/var/lib/kubelet/pki/kubelet-server-current.pem"
	static := "  kubelet: {config: {cpuManagerPolicy: static}}\n"
	strict := "  kubelet: {config: {cpuManagerPolicy: static, cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}}}\n"
	name := "system:node:" + imdstest.Typical().Hostname
	for what, c := range map[string]struct {
		file, state, spec string
		stays             bool
	}{
		"this node's certificate":   {server, certificate(t, name, "10.0.1.2"), "", true},
		"no address":                {server, certificate(t, name, ""), "", true},
		"another name":              {server, certificate(t, "system:node:ip-10-0-9-9.eu-west-1.compute.internal", "10.0.1.2"), "", false},
		"another address":           {server, certificate(t, name, "10.0.9.9"), "", false},
		"a damaged certificate":     {server, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), "", false},
		"the same policy":           {cpuState, `{"policyName":"none"}`, "", true},
		"configured":                {cpuState, `{"policyName":"static","defaultCpuSet":"0-3"}`, static, true},
		"by a flag":                 {cpuState, `{"policyName":"static"}`, "  kubelet: {flags: [--cpu-manager-policy=static]}\n", true},
		"another flag":              {cpuState, `{"policyName":"static"}`, "  kubelet: {flags: [--topology-manager-policy=best-effort]}\n", false},
		"removed":                   {cpuState, `{"policyName":"static"}`, "", false},
		"now configured":            {cpuState, `{"policyName":"none"}`, static, false},
		"empty, corrupt":            {cpuState, ``, "", false},
		"some processors are taken": {cpuState, `{"policyName":"static","defaultCpuSet":"0,3","entries":{"pod":{"init":"1-2","app":"1"}}}`, static, true},
		"there were more":           {cpuState, `{"policyName":"static","defaultCpuSet":"0-7"}`, static, false},
		"there were fewer":          {cpuState, `{"policyName":"static","defaultCpuSet":"0,1"}`, static, false},
		"reserved strictly":         {cpuState, `{"policyName":"static","defaultCpuSet":"1-3"}`, strict, true},
	} {
		t.Run(what, func(t *testing.T) {
			h, w := mounted(t), surround(t, imdstest.Typical())
			lay(t, h, map[string]string{machine.OnlineCPUs: "0-3\n"})
			w.join(t, h, config(t, "a", ""))
			lay(t, h, map[string]string{c.file: c.state})
			w.join(t, h, config(t, "a", c.spec))
			assert.Equal(t, c.stays, there(t, h, c.file))
		})
	}
}

func certificate(t *testing.T, name, address string) string {
	t.Helper()
	template := x509.Certificate{Subject: pkix.Name{CommonName: name}}
	if address != "" {
		template.IPAddresses = []net.IP{net.ParseIP(address)}
	}
	made, _ := testkit.Certificate(t, template)
	return string(made)
}

// Files that a user may have written stay, and every run reports them.
func TestPossibleUserFilesAreReportedAndKept(t *testing.T) {
	const folder = "/etc/systemd/system/kubelet.service.d/"
	const overrides = ", and overrides this node's value; remove the file if it is leftover state"
	for name, c := range map[string]struct{ file, text, warning string }{
		"another form": {argsDropIn, "# mine\n[Service]\nEnvironment=\"KUBELET_ARGS=--v=4 --node-ip 10.0.0.1\"\n", "its --node-ip sets the node's identity" + overrides},
		"another name": {folder + "20-mine.conf", extraText, "its --node-labels sets node labels" + overrides},
		"continued":    {folder + "20-mine.conf", "[Service]\nEnvironment=A=b \\\n  KUBELET_EXTRA_ARGS=--config=/my.json\n", "its --config reads a file that first boot does not write" + overrides},
		"another command": {folder + "20-mine.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet --v=2\n",
			"the unit starts the kubelet without $NODEADM_KUBELET_ARGS, with which first boot sets the cluster and the node; remove the file if this is not intended"},
		"another unit": {shadow, "[Service]\nExecStart=/opt/kubelet\n",
			"the unit starts the kubelet without $NODEADM_KUBELET_ARGS, with which first boot sets the cluster and the node; remove the file if this is not intended"},
		"harmless":          {folder + "20-mine.conf", "[Service]\nEnvironment=KUBELET_EXTRA_ARGS=--v=4\nMemoryMax=1G\n", ""},
		"commented out":     {folder + "20-mine.conf", "[Service]\n#Environment=KUBELET_EXTRA_ARGS=--node-ip=10.0.0.1\n", ""},
		"a command of ours": {folder + "20-mine.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/nice /usr/bin/kubelet $NODEADM_KUBELET_ARGS\n", ""},
		"the image's own":   {shadow, ownText, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h, w := mounted(t), surround(t, imdstest.Typical())
			lay(t, h, map[string]string{c.file: c.text})
			for range 2 {
				w.log = nil
				w.join(t, h, config(t, "a", ""))
				assert.Equal(t, c.text, contentOf(t, h, c.file))
				var want []string
				if c.warning != "" {
					want = []string{c.file + ": " + c.warning}
				}
				assert.Equal(t, want, w.said("warning: leftover-state: "))
			}
		})
	}
}

// A script in user data may write a drop-in with the name and form of Amazon's, before
// or after first boot.
func TestDropInWrittenByUserDataIsKept(t *testing.T) {
	for name, c := range map[string]struct {
		written time.Duration // before now
		stays   bool
	}{"since the boot": {time.Minute, true}, "before the boot": {2 * time.Hour, false}} {
		t.Run(name, func(t *testing.T) {
			h, w := mounted(t), surround(t, imdstest.Typical())
			for file, text := range map[string]string{
				// The kernel has run for ten hours, the container for one.
				"uptime": "36000.00 1.00\n", "1/stat": "1 (init) x) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 3240000 1 1\n",
			} {
				require.NoError(t, os.MkdirAll(filepath.Join(h.Root(), "proc/1"), 0o755))
				require.NoError(t, os.WriteFile(filepath.Join(h.Root(), "proc", file), []byte(text), 0o644))
			}
			lay(t, h, map[string]string{extraDropIn: extraText})
			when := time.Now().Add(-c.written)
			require.NoError(t, h.Files.Chtimes(extraDropIn, when, when))
			w.join(t, h, config(t, "a", ""))
			assert.Equal(t, c.stays, there(t, h, extraDropIn))
		})
	}
}

func TestFilledInTemplatesAreReset(t *testing.T) {
	h, w := mounted(t), surround(t, imdstest.Typical())
	lay(t, h, map[string]string{
		templates.KubeletConfig:    `{"kind": "KubeletConfiguration", "eventRecordQPS": 0, "maxPods": 737, "providerID": "aws:///eu-west-1a/i-captured", "systemReservedCgroup": "/system", "kubeReservedCgroup": "/runtime"}`,
		templates.ContainerdConfig: "sandbox_image = \"918309763551.dkr.ecr.cn-north-1.amazonaws.com.cn/eks/pause:3.1\" # mine\n",
	})
	w.call(t, h, given("b", "--use-max-pods", "false", "--kubelet-extra-args", "--reserved-cpus=0")...)
	text := contentOf(t, h, render.ScriptKubeletConfig)
	for _, key := range []string{"maxPods", "systemReservedCgroup", "kubeReservedCgroup", "i-captured"} {
		assert.NotContains(t, text, key)
	}
	assert.Contains(t, text, `"eventRecordQPS": 0`, "a user's key stays")
	assert.Equal(t, "sandbox_image = \""+image+"\" # mine\n", contentOf(t, h, render.ContainerdConfig))
	assert.Equal(t, []string{
		templates.KubeletConfig + " contains the settings of another node; the settings that bootstrap.sh writes there are left out",
		templates.ContainerdConfig + " contains the settings of another node; its pause image is left out",
	}, w.said("warning: "))
}
