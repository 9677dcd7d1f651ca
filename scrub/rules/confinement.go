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

// confinementReaders find settings of SELinux, AppArmor and fapolicyd, and closed modes.
func confinementReaders() map[string]reader {
	return map[string]reader{
		"selinux-policy": enforcing().where(there(programs("containerd", "crio")...)).unless(there(
			"/var/lib/selinux/*/active/modules/*/container", "/etc/selinux/*/active/modules/*/container",
			"/usr/share/selinux/packages/container.pp*",
		)),
		"selinux-labels": labelled(
			[]string{"user_home_t", "user_tmp_t", "admin_home_t", "tmp_t", "default_t", "unlabeled_t", "var_t"},
			append(programs("kubelet", "containerd", "runc", "nodeadm", "eksnode"), "/opt/cni/bin/*")...).
			where(enforcing()),
		"selinux-mls":     lines(`^SELINUXTYPE\s*=\s*(mls|minimum)`, selinuxConfig).where(enforcing()),
		"selinux-relabel": there("/.autorelabel"),
		"apparmor-profile": lines(`^(profile\s+\S+\s+)?"?/\S*/(kubelet|containerd|containerd-shim-runc-v2|runc|crun)"?`+
			`\s+(flags=\((enforce|attach_disconnected|mediate_deleted|[,\s])+\)\s+)?\{`, "/etc/apparmor.d/*"),
		"fapolicyd": enabled("fapolicyd.service").unless(anyOf(
			lines(`^permissive\s*=\s*1`, "/etc/fapolicyd/fapolicyd.conf"),
			lines(`\bkubelet\b|dir=/usr/local/bin`, "/etc/fapolicyd/fapolicyd.trust", "/etc/fapolicyd/trust.d/*",
				"/etc/fapolicyd/rules.d/*"),
		)),
		"closed-programs": closedPrograms(0o100, append(
			programs("kubelet", "containerd", "containerd-shim-runc-v2", "runc", "nodeadm"), pluginsCNI...)...),
		"closed-folders": anyOf(closed(0o005, "/etc", "/usr", "/usr/bin", "/usr/lib", "/var", "/var/lib", "/usr/local",
			"/opt"),
			closed(0o004, sharedFiles...)),
		"closed-cni": closed(0o005, "/opt/cni", "/opt/cni/bin", "/etc/cni", "/etc/cni/net.d", "/etc/eks"),
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
	"/opt/cni/bin/loopback", "/opt/cni/bin/portmap", "/opt/cni/bin/bandwidth", "/opt/cni/bin/host-local",
	"/opt/cni/bin/aws-cni",
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
