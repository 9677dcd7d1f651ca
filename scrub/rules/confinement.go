package rules

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/scrub/rule"
)

// confinementRows are settings of SELinux, AppArmor and fapolicyd that stop
// programs of a node.
func confinementRows() []breaker {
	return []breaker{
		{
			id: "selinux-policy", cause: "may-not-run",
			reads: enforcing().where(there(programs("containerd", "crio")...)).unless(there(
				"/var/lib/selinux/*/active/modules/*/container", "/etc/selinux/*/active/modules/*/container",
				"/usr/share/selinux/packages/container.pp*",
			)),
			program: "containerd, containers", shows: `SELinux denies them files and sockets: "avc: denied"`,
			fix: "Install container-selinux", source: "container-selinux; awslabs/amazon-eks-ami #2006",
			benchmarks: "CIS 1.3.1.5 for RHEL 9, CIS 1.6.1.5 for AL2023, V-258078",
		},
		{
			id: "selinux-labels", cause: "may-not-run", reads: labelled(
				[]string{"user_home_t", "user_tmp_t", "admin_home_t", "tmp_t", "default_t", "unlabeled_t", "var_t"},
				append(programs("kubelet", "containerd", "runc", "nodeadm", "eksnode"), "/opt/cni/bin/*")...).where(enforcing()),
			program: "nodeadm, kubelet, containerd",
			shows: `systemd starts no program that was moved from a home or /tmp: "Failed to locate executable: Permission ` +
				`denied"`,
			fix: "Run restorecon on the programs, as `eksnode provision` does", source: "awslabs/amazon-eks-ami #2123",
			benchmarks: "CIS 1.3.1.5 for RHEL 9, V-258078",
		},
		{
			id: "selinux-mls", cause: "may-not-run",
			reads:   lines(`^SELINUXTYPE\s*=\s*(mls|minimum)`, selinuxConfig).where(enforcing()),
			program: "containerd", shows: "this policy has no rules for containers",
			fix: "Set SELINUXTYPE=targeted", source: "container-selinux", benchmarks: "CIS 1.3.1.3 for RHEL 9, V-258079",
		},
		{
			id: "selinux-relabel", cause: "first-boot", reads: there("/.autorelabel"), note: true,
			program: "first boot", shows: "every node labels its whole disk at first boot and restarts",
			fix: "Label the image before the capture, and remove the file", source: "selinux-autorelabel(8)",
		},
		{
			id: "apparmor-profile", cause: "may-not-run",
			reads: lines(`^(profile\s+\S+\s+)?"?/\S*/(kubelet|containerd|containerd-shim-runc-v2|runc|crun)"?\s+`+
				`(flags=\((enforce|attach_disconnected|mediate_deleted|[,\s])+\)\s+)?\{`, "/etc/apparmor.d/*"),
			program: "kubelet, containerd, runc", shows: `AppArmor denies what the profile does not list: apparmor="DENIED"`,
			fix: "Remove the profile, or set flags=(unconfined)", source: "apparmor.d(5)", benchmarks: "CIS 1.3.1.4 for Debian 12 and Ubuntu 24.04",
			exempts: "all_apparmor_profiles_enforced",
		},
		{
			id: "fapolicyd", cause: "may-not-run",
			reads: enabled("fapolicyd.service").unless(anyOf(
				lines(`^permissive\s*=\s*1`, "/etc/fapolicyd/fapolicyd.conf"),
				lines(`\bkubelet\b|dir=/usr/local/bin`, "/etc/fapolicyd/fapolicyd.trust", "/etc/fapolicyd/trust.d/*",
					"/etc/fapolicyd/rules.d/*"),
			)),
			program: "kubelet, containerd, runc, CNI plugins, eksnode",
			shows:   `programs that no package installed do not run: "operation not permitted"`,
			fix:     "Add the programs to a file of /etc/fapolicyd/trust.d, and allow containers in rules.d",
			source:  "rancher/rke2 #2848, #3454; fapolicyd #205", benchmarks: "V-258090",
			exempts: "fapolicy_default_deny package_fapolicyd_installed service_fapolicyd_enabled",
		},
		{
			id: "closed-programs", cause: "may-not-run",
			reads: closedPrograms(0o100, append(programs("kubelet", "containerd", "containerd-shim-runc-v2", "runc", "nodeadm"),
				pluginsCNI...)...),
			program: "systemd, containerd", shows: `the program does not start: "permission denied"`,
			fix: "Set the mode to 0755", source: "execve(2)",
		},
		{
			id: "closed-folders", cause: "units",
			reads: anyOf(closed(0o005, "/etc", "/usr", "/usr/bin", "/usr/lib", "/var", "/var/lib", "/usr/local", "/opt"),
				closed(0o004, sharedFiles...)),
			program: "chrony, D-Bus, systemd-resolved, polkit",
			shows:   "programs that do not run as root cannot read what they need",
			fix:     "Set the mode to 0755 for folders and 0644 for files; install with umask 022",
			source:  "systemd: users of its services; awslabs/amazon-eks-ami #1804",
		},
		{
			id: "closed-cni", cause: "network-plugin",
			reads: closed(0o005, "/opt/cni", "/opt/cni/bin", "/etc/cni", "/etc/cni/net.d", "/etc/eks"), note: true,
			program: "pods of CNI plugins and agents that do not run as root", shows: "they cannot read these folders",
			fix: "Set the mode to 0755; install with umask 022", source: "umask(2)", benchmarks: "CIS 5.4.3.3",
		},
	}
}

const selinuxConfig = "/etc/selinux/config"

func enforcing() reader {
	return lines(`^SELINUX\s*=\s*enforcing`, selinuxConfig).unless(bootArgument(`(selinux|enforcing)=0`))
}

func programs(names ...string) (places []string) {
	for _, name := range names {
		for _, folder := range rule.ProgramFolders {
			places = append(places, path.Join(folder, name))
		}
	}
	return places
}

// pluginsCNI are the plugins that the VPC CNI needs; other files are beside them.
var pluginsCNI = []string{
	"/opt/cni/bin/loopback", "/opt/cni/bin/portmap", "/opt/cni/bin/bandwidth", "/opt/cni/bin/host-local", "/opt/cni/bin/aws-cni",
}

// sharedFiles are read by programs that do not run as root.
var sharedFiles = []string{
	"/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/os-release",
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
}

// labelled finds files with one of the types of SELinux.
func labelled(types []string, patterns ...string) reader {
	return reader{patterns, func(d *rule.Draft) {
		for _, name := range d.Files(patterns...) {
			label, err := d.Host.Files.Label(name)
			d.Failed(err)
			if parts := strings.Split(label, ":"); len(parts) > 2 && slices.Contains(types, parts[2]) {
				d.Find(name, "the file has the type "+parts[2]+" of SELinux")
			}
		}
	}}
}

func there(patterns ...string) reader {
	return matched(patterns, func(fs.FileInfo) string { return "exists" })
}

// closed finds files and folders whose mode lacks a bit of want.
func closed(want fs.FileMode, patterns ...string) reader {
	return matched(patterns, func(st fs.FileInfo) string {
		if mode := st.Mode().Perm(); mode&want != want {
			return fmt.Sprintf("the mode is %04o and lacks %04o", mode, want&^mode)
		}
		return ""
	})
}

// closedPrograms is closed for programs. A file that stands in for one is left out.
func closedPrograms(want fs.FileMode, patterns ...string) reader {
	r := closed(want, patterns...)
	return reader{r.paths, func(d *rule.Draft) {
		d.Found(slices.DeleteFunc(r.findings(d), func(f plan.Finding) bool { return !canStart(d.Host, f.Target) })...)
	}}
}

// canStart reports whether a file is one that the kernel could start.
func canStart(h *host.Host, name string) bool {
	file, err := h.Files.OpenRegular(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var head [4]byte
	n, _ := io.ReadFull(file, head[:]) // a short file is none
	return string(head[:n]) == "\x7fELF" || strings.HasPrefix(string(head[:n]), "#!")
}

// matched finds files and folders about which says something. Links count as
// what they lead to.
func matched(patterns []string, says func(fs.FileInfo) string) reader {
	return reader{patterns, func(d *rule.Draft) {
		for _, name := range d.Glob(patterns...) {
			if st := d.Stat(name); st != nil {
				if reason := says(st); reason != "" {
					d.Find(name, reason)
				}
			}
		}
	}}
}
