package provisioner

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/distros"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

//go:embed assets/tmp.mount
var tmpMount string

// option is an optional feature of a node, as data for the steps.
type option struct {
	// id is the option's name in a spec.
	id string
	// needs is the distribution option with the packages; empty means none.
	needs distros.Option
	why   string
	// packages are those without an entry in the distribution's table, and units start at
	// boot.
	packages, units []string
	// module is what every kernel of the image must have, and moduleOf the distribution
	// option with the packages for kernels that lack it.
	module   string
	moduleOf distros.Option
	files    []plan.File
	lines    []lineInFile
	links    []plan.SymbolicLink
	sysctls  map[string]string
}

// The values of hardening and of nvidia_container_toolkit.
const (
	hardenTmp    = "tmp-noexec"
	hardenUmask  = "umask"
	hardenAudit  = "audit"
	byVariable   = "envvar"
	byMount      = "volume-mounts"
	nvidiaConfig = "/etc/nvidia-container-runtime/config.toml"
)

// Hardenings lists the values of the field hardening.
func Hardenings() []string {
	return []string{distros.CIS1, distros.CIS2, distros.STIG, hardenTmp, hardenUmask, hardenAudit}
}

// DeviceLists lists the values of the field nvidia_container_toolkit.
func DeviceLists() []string { return []string{byVariable, byMount} }

// The values of swap and fips.
const (
	swapZram   = "zram"
	fipsCheck  = "check"
	fipsEnable = "enable"
)

// Swaps lists the values of the field swap.
func Swaps() []string { return []string{swapZram} }

// FIPSModes lists the values of the field fips.
func FIPSModes() []string { return []string{fipsCheck, fipsEnable} }

// options are the options of the spec, in a fixed order.
func (s Spec) options() []option {
	var list []option
	if s.NVIDIAContainerToolkit != "" || s.NVIDIA != "" {
		list = append(list, nvidia(cmp.Or(s.NVIDIAContainerToolkit, byVariable)))
	}
	if s.Neuron {
		list = append(list, neuron())
	}
	if s.EFA {
		list = append(list, efa())
	}
	if s.SOCI {
		list = append(list, soci())
	}
	if s.Swap != "" {
		list = append(list, option{id: s.Swap, needs: distros.Swap, why: "swap in memory"})
	}
	for _, h := range []option{tmpNoexec(), umask(), audit()} {
		if slices.Contains(s.Hardening, h.id) {
			list = append(list, h)
		}
	}
	return append(list, s.agentOptions()...)
}

// nvidia installs the toolkit, whose runtime first boot adds to containerd when the
// instance has a GPU. With byMount an unprivileged container cannot use a GPU that
// the device plugin did not assign; the plugin must then also use volume-mounts.
// https://github.com/NVIDIA/k8s-device-plugin, "device-list-strategy"
func nvidia(devices string) option {
	o := option{
		id: devices, needs: distros.NVIDIA, why: "containers can use GPUs",
		files: []plan.File{textFile("/etc/modules-load.d/eksnode-nvidia.conf", "nvidia\nnvidia_uvm\n",
			"the GPUs' devices exist before the first container")},
	}
	const why = "nvidia_container_toolkit selects how a container names its GPUs"
	for _, setting := range []struct {
		name  string
		value bool
	}{
		{"accept-nvidia-visible-devices-as-volume-mounts", devices == byMount},
		{"accept-nvidia-visible-devices-envvar-when-unprivileged", devices != byMount},
	} {
		o.lines = append(o.lines, lineInFile{
			path: nvidiaConfig, key: `^#?\s*` + setting.name + `\s*=`, text: fmt.Sprintf("%s = %t", setting.name, setting.value), first: true, why: why,
		})
	}
	return o
}

// efa contains the needs of Elastic Fabric Adapter beyond the kernel's driver: the
// verbs, lockable memory, and huge pages for libfabric.
// https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html
func efa() option {
	return option{
		id: string(distros.EFA), needs: distros.EFA, why: "containers can use Elastic Fabric Adapter",
		module: "efa", moduleOf: distros.EFAModule,
		files: []plan.File{
			textFile("/etc/modules-load.d/eksnode-efa.conf", "ib_uverbs\nefa\n", "the adapter's devices exist "+
				"before its device plugin"),
			textFile("/etc/systemd/system/containerd.service.d/20-eksnode-efa.conf",
				"[Service]\nLimitMEMLOCK=infinity\n", "the adapter needs locked memory"),
		},
		sysctls: map[string]string{"vm.nr_hugepages": "5128"},
	}
}

// soci replaces the unit of the package, if there is one: some listen on a socket unit that
// must be enabled too. First boot starts the snapshotter before containerd.
func soci() option {
	const text = `[Unit]
Description=SOCI snapshotter
Documentation=https://github.com/awslabs/soci-snapshotter
Before=containerd.service

[Service]
Type=notify
ExecStart=soci-snapshotter-grpc
Restart=always
RestartSec=5
Slice=runtime.slice
`
	return option{
		id: string(distros.SOCI), needs: distros.SOCI, why: "pulls images in parallel",
		files: []plan.File{textFile("/etc/systemd/system/soci-snapshotter.service", text,
			"first boot starts the SOCI snapshotter before containerd")},
	}
}

// tmpNoexec mounts /tmp as a separate file system from the next boot on (CIS
// 1.1.2.1).
func tmpNoexec() option {
	const unit = "/etc/systemd/system/tmp.mount"
	return option{
		id: hardenTmp, why: "no program runs from /tmp",
		files: []plan.File{textFile(unit, tmpMount, "no program runs from /tmp (CIS 1.1.2.1)")},
		links: []plan.SymbolicLink{{Path: "/etc/systemd/system/local-fs.target.wants/tmp.mount", To: unit, Why: "mounts /tmp at boot"}},
	}
}

// umask is for people who log in; services have their own (CIS 5.4.3.3).
func umask() option {
	return option{
		id: hardenUmask, why: "files of users are not readable by everyone",
		files: []plan.File{textFile("/etc/profile.d/eksnode-umask.sh", "umask 027\n", "files of users are not "+
			"readable by everyone (CIS 5.4.3.3)")},
		lines: []lineInFile{{path: "/etc/login.defs", key: `^#?\s*UMASK\s`, text: "UMASK\t\t027", why: "files of users are not readable by everyone (CIS 5.4.3.3)"}},
	}
}

// audit records changes of the node's files (CIS 4.1 of Kubernetes workers, 6.3 of
// the distributions).
func audit() option {
	var rules strings.Builder
	rules.WriteString("# The node's own files, and the files that control access.\n")
	for _, watched := range []string{
		"/etc/kubernetes", "/var/lib/kubelet/kubeconfig", "/etc/eks", "/etc/containerd", "/etc/cni/net.d", "/opt/cni/bin",
		"/etc/systemd/system", "/etc/passwd", "/etc/group", "/etc/shadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssh",
	} {
		fmt.Fprintf(&rules, "-w %s -p wa -k eksnode\n", watched)
	}
	return option{
		id: hardenAudit, needs: distros.Audit, why: "records changes of the node",
		files: []plan.File{{Path: "/etc/audit/rules.d/50-eksnode.rules", Content: []byte(rules.String()), Mode: 0o640, Why: "records changes of the node (CIS 6.3)"}},
	}
}

// fips makes the image start in FIPS mode. It is done when the policy of programs and the
// kernel's arguments say so, or when the machine runs in FIPS mode.
func (n *node) fips(ctx context.Context, h *host.Host) ([]plan.Action, error) {
	how := n.distro.FIPS
	policy, err := h.Content(how.Policy)
	if err != nil {
		return nil, err
	}
	starts, err := n.taken(ctx, h, []string{"fips=1"})
	if err != nil || starts && slices.Contains(strings.Fields(string(policy)), how.PolicyText) {
		return nil, err
	}
	return []plan.Action{{Verb: plan.Run, Target: strings.Join(how.Setup, " "), Reason: "the image starts in FIPS mode",
		Do: func(ctx context.Context, _ plan.Progress) error {
			if !h.HasCommand(how.Setup[0]) {
				return surface.Errorf("{fips}: this machine has no %s; %s, with %s", how.Setup[0], how.Enable,
					surface.Name("fips").Is(fipsCheck))
			}
			_, err := h.Run(ctx, host.Command{Argv: how.Setup})
			return err
		}}}, nil
}

func (n *node) optionPackages() []string {
	var names []string
	for _, o := range n.options() {
		if o.needs != "" {
			names = append(append(names, n.named(n.distro.OptionPackages[o.needs])...), o.packages...)
		}
	}
	if n.spec.FIPS == fipsEnable {
		names = append(names, n.distro.FIPS.Packages...)
	}
	return names
}

// agents are the values of the field agents, with the package, whose unit has the same
// name. Their identity is in the rules ssm-registration and agent-ids of the scrub.
var agents = map[string]string{
	"ssm": "amazon-ssm-agent", "cloudwatch": "amazon-cloudwatch-agent", "node-problem-detector": "node-problem-detector",
}

// Agents lists the values of the field agents.
func Agents() []string { return []string{"ssm", "cloudwatch", "node-problem-detector"} }

func (s Spec) agentOptions() []option {
	var list []option
	for _, id := range s.Agents {
		list = append(list, option{
			id: id, needs: distros.Agents, packages: []string{agents[id]}, units: []string{agents[id] + ".service"}, why: "the agent " + id,
		})
	}
	return list
}

// planOptionUnits plans to enable the units of options. A package that has no such unit is
// an error.
func (n *node) planOptionUnits(ctx context.Context, h *host.Host, o option) ([]plan.Action, error) {
	if len(o.units) == 0 {
		return nil, nil
	}
	have, err := n.installed(ctx, h)
	if err != nil {
		return nil, err
	}
	for i, pkg := range o.packages[:min(len(o.packages), len(o.units))] {
		unit := o.units[i]
		has, err := h.HasUnit(unit)
		if err != nil {
			return nil, err
		}
		if !has && have[pkg] != "" {
			return nil, surface.Errorf("{agents}: the package %s has no unit %s; choose another repository",
				pkg, unit)
		}
	}
	return planEnabled(h, o.units, o.why+" starts at boot")
}
