package provisioner

import (
	"errors"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
)

// unfit is a kernel argument with which no node works.
type unfit struct {
	name string
	// values are the refused values, each an item of a comma-separated list. Empty
	// means all.
	values []string
	// but are the accepted values when values is empty.
	but []string
	// why continues a sentence that begins with the argument.
	why string
}

const (
	against    = "contradicts what a node needs: "
	whyBoot    = against + "the machine would not start as a node"
	whyLegacy  = "selects cgroup v1, with which kubelets from 1.35 on do not start"
	whyControl = "removes a cgroup controller without which the kubelet does not start"
	whyModules = "blocks a module that the network or the disks of a node need"
)

// unfits are the refused kernel arguments
// (https://docs.kernel.org/admin-guide/kernel-parameters.html,
// kernel-command-line(7), dracut.cmdline(7)).
func unfits() []unfit {
	off := []string{"0", "no", "n", "false", "f", "off"}
	needed := []string{
		"overlay", "br_netfilter", "bridge", "veth", "nf_conntrack", "nf_nat", "nf_tables", "nft_compat", "x_tables", "ip_tables", "iptable_nat", "iptable_filter", "ip_set",
		"xt_comment", "xt_conntrack", "xt_mark", "xt_MASQUERADE", "xt_nat", "xt_addrtype", "xt_statistic",
		"ena", "nvme", "nvme_core", "xen_blkfront", "ext4", "xfs",
	}
	return []unfit{
		{name: "root", why: against + "the boot loader must set root to the disk that it starts from, and an image is copied to other disks"},
		{name: "init", but: []string{"/sbin/init", "/usr/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd"}, why: against + "systemd starts the kubelet"},
		{name: "rdinit", why: whyBoot}, {name: "single", why: whyBoot}, {name: "emergency", why: whyBoot}, {name: "rescue", why: whyBoot},
		{name: "S", why: whyBoot}, {name: "s", why: whyBoot}, {name: "1", why: whyBoot}, {name: "rd.break", why: whyBoot},
		{name: "systemd.unit", but: []string{"default.target", "multi-user.target", "graphical.target"}, why: whyBoot},
		{name: "rd.systemd.unit", but: []string{"initrd.target"}, why: whyBoot},
		{name: "systemd.mask", values: []string{"kubelet", "kubelet.service", "containerd", "containerd.service"}, why: against + "kubelet and containerd could not start"},
		{name: "systemd.unified_cgroup_hierarchy", values: off, why: whyLegacy},
		{name: "systemd.legacy_systemd_cgroup_controller", but: off, why: whyLegacy},
		{name: "cgroup_disable", values: []string{"cpu", "cpuacct", "cpuset", "memory", "pids"}, why: whyControl},
		{name: "systemd.zram", values: []string{"", "1", "yes", "y", "true", "t", "on"}, why: "creates swap in memory, with which a kubelet does not start"},
		{name: "nomodule", why: whyModules},
		{name: "module_blacklist", values: needed, why: whyModules}, {name: "modprobe.blacklist", values: needed, why: whyModules}, {name: "rd.driver.blacklist", values: needed, why: whyModules},
	}
}

// refuses says whether the argument is refused with this value.
func (u unfit) refuses(value string) bool {
	plain := func(s string) string { return strings.ReplaceAll(s, "-", "_") } // module names may have both
	if len(u.values) == 0 {
		return !slices.Contains(u.but, strings.ToLower(value))
	}
	for part := range strings.SplitSeq(value, ",") {
		if slices.ContainsFunc(u.values, func(v string) bool { return strings.EqualFold(plain(v), plain(part)) }) {
			return true
		}
	}
	return false
}

// checkArgument refuses a kernel argument with which no node works, or that
// contradicts another field.
func (s Spec) checkArgument(name, value string) error {
	for _, u := range unfits() {
		// The kernel treats - and _ in its own names as equal.
		if strings.ReplaceAll(u.name, "-", "_") == strings.ReplaceAll(name, "-", "_") && u.refuses(value) {
			return errors.New(u.why)
		}
	}
	switch parameter, isSysctl := strings.CutPrefix(name, "sysctl."); {
	case isSysctl:
		return checkParameter(parameter, value)
	case name == "fips" && value == "0" && s.FIPS != "":
		return surface.Errorf("contradicts %s", surface.Name("fips").Is(s.FIPS))
	case name == "audit" && (value == "0" || value == "off") && slices.Contains(s.Hardening, hardenAudit):
		return surface.Errorf("contradicts {hardening} %q: nothing would be recorded", hardenAudit)
	}
	return nil
}

// misfits are packages with which no node works, by their names on every
// distribution.
func misfits() map[string]string {
	const (
		ours = "eksnode downloads the node's own version, and an update of the package would replace that version"
		swap = "the package creates swap, with which a kubelet does not start"
	)
	return map[string]string{
		"kubelet": ours, "kubeadm": "the package contains a kubelet, but eksnode downloads the node's own", "kubernetes-cni": ours, "kubernetes-node": ours, "ecr-credential-provider": ours,
		"cri-o":          "the package configures a pod network, which containerd would prefer to the VPC CNI's",
		"firewalld":      "the firewall starts at boot and drops what pods send",
		"zram-generator": swap, "zram-generator-defaults": swap, "systemd-zram-generator": swap, "systemd-zram-service": swap, "zram-tools": swap, "zram-config": swap, "swapspace": swap, "dphys-swapfile": swap,
		"NetworkManager-cloud-setup": "the package configures addresses and rules of secondary interfaces, which breaks the VPC CNI",
	}
}

func checkPackage(field surface.Name, name string) error {
	if why, unfit := misfits()[name]; unfit {
		return surface.Errorf("%s: %q contradicts what a node needs: %s", field, name, why)
	}
	return nil
}
